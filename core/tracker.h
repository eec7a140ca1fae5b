// Where a run's numbers go.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace accel {

/// The git checkout that a run was started in; empty texts for what is not known.
struct GitState {
  std::string commit;
  std::string branch;
  std::string remote;  ///< without a user name or password
};

struct TrackerContext {
  std::string run_dir;  ///< absolute; exists
  std::string run_name;
  int64_t first_step = 0;  ///< > 0 on resume: later records of an earlier life are dropped
  std::map<std::string, std::string> ids;  ///< what ids() said when the checkpoint was made
  GitState git = {};
};

/// One logged number: "train/loss", 0.25.
using Measurement = std::pair<std::string, double>;

/// The resolved recipe, flattened: {"optimizer.lr", "0.001"}.
using ConfigValues = std::vector<std::pair<std::string, std::string>>;

/// Bytes of an image, row by row, the channels of a pixel together.
struct Picture {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;  ///< 3: red, green, blue; 1: grey
  std::vector<uint8_t> pixels;
};

/// How a run ended.
enum class RunStatus { kFinished, kInterrupted, kFailed };

/// What flush() is to reach: other readers, or also the disk.
enum class Flush { kReadable, kDurable };

/// Only rank 0 has trackers, and one thread calls them. A full disk is an IoError; no call waits
/// for a network: what talks to one is also an Uplink.
class Tracker {
 public:
  virtual ~Tracker() = default;

  /// Called once, first.
  virtual void config(const ConfigValues& values) = 0;
  virtual void log(int64_t step, std::span<const Measurement> values) = 0;
  virtual void text(int64_t step, const std::string& tag, const std::string& text) = 0;
  virtual void histogram(int64_t step, const std::string& tag, std::span<const float> values) = 0;
  virtual void image(int64_t step, const std::string& tag, const Picture& picture) = 0;
  virtual void flush(Flush how) = 0;
  virtual void finish(RunStatus status) = 0;
  /// Names of the run at the far end, kept in checkpoints so that a resume appends to it. Asked
  /// after flush(Flush::kDurable).
  virtual std::map<std::string, std::string> ids() const = 0;
};

}  // namespace accel
