// Where a run's numbers go.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace accel {

struct TrackerContext {
  std::string run_dir;  ///< absolute; exists
  std::string run_name;
  int64_t first_step = 0;  ///< > 0 on resume: later records of an earlier life are dropped
  std::map<std::string, std::string> ids;  ///< what ids() said when the checkpoint was made
};

/// One logged number: "train/loss", 0.25.
using Measurement = std::pair<std::string, double>;

/// How a run ended.
enum class RunStatus { kFinished, kInterrupted, kFailed };

/// Only rank 0 has trackers. No call may throw for a lost network; a full disk is an IoError.
class Tracker {
 public:
  virtual ~Tracker() = default;

  /// The resolved recipe, flattened: {"optimizer.lr", "0.001"}. Called once, first.
  virtual void config(const std::vector<std::pair<std::string, std::string>>& values) = 0;
  virtual void log(int64_t step, std::span<const Measurement> values) = 0;
  virtual void text(int64_t step, const std::string& tag, const std::string& text) = 0;
  virtual void histogram(int64_t step, const std::string& tag, std::span<const float> values) = 0;
  /// Makes everything logged so far durable enough to be read by others.
  virtual void flush() = 0;
  virtual void finish(RunStatus status) = 0;
  /// Names of the run at the far end, kept in checkpoints so that a resume appends to it.
  virtual std::map<std::string, std::string> ids() const = 0;
};

}  // namespace accel
