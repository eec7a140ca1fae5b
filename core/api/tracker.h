// Trackers: sinks of metrics, texts and images.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/append_file.h"

namespace accel {

/// Git checkout of the working folder; unknown values are empty.
struct GitState {
  std::string commit;
  std::string branch;
  std::string remote;  ///< without a user name or password
};

struct TrackerContext {
  std::string run_dir;  ///< absolute; exists
  std::string run_name;
  int64_t first_step = 0;                  ///< > 0 on resume: later records are dropped
  std::map<std::string, std::string> ids;  ///< ids() at the time of the checkpoint
  GitState git = {};
};

/// One logged number: "train/loss", 0.25.
using Measurement = std::pair<std::string, double>;

/// The resolved recipe, flattened: {"optimizer.lr", "0.001"}.
using ConfigValues = std::vector<std::pair<std::string, std::string>>;

/// An image in HWC layout.
struct Picture {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;  ///< 3: red, green, blue; 1: grey
  std::vector<uint8_t> pixels;
};

/// How a run ended.
enum class RunStatus { kFinished, kInterrupted, kFailed };

/// Only rank 0 has trackers, and one thread calls them. A full disk is an IoError; no call waits
/// for a network: a tracker that uses one is also a RemoteTracker.
class Tracker {
 public:
  virtual ~Tracker() = default;

  /// Called once, before all others.
  virtual void config(const ConfigValues& values) = 0;
  virtual void log(int64_t step, std::span<const Measurement> values) = 0;
  virtual void text(int64_t step, const std::string& tag, const std::string& text) = 0;
  virtual void histogram(int64_t step, const std::string& tag, std::span<const float> values) = 0;
  virtual void image(int64_t step, const std::string& tag, const Picture& picture) = 0;
  virtual void flush(Flush how) = 0;
  virtual void finish(RunStatus status) = 0;
  /// Ids of the run on the server, saved in checkpoints so that a resumed run appends to it. Called
  /// after flush(Flush::kDurable).
  virtual std::map<std::string, std::string> ids() const = 0;
};

}  // namespace accel
