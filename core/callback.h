// What may watch and stop a run without being part of the step.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/batch.h"
#include "core/schedule.h"

namespace accel {

class TextGenerator;

struct CallbackContext {
  std::vector<NamedTensor> parameters;  ///< of the model, sharing memory
  std::vector<NamedTensor> buffers;
  std::vector<std::string> metrics;  ///< names an evaluation reports: "eval/loss", "eval/accuracy"
  ScheduleContext length = {};       ///< of the run
  /// Writes texts with the model as it is; null for a model or data without texts. On all ranks.
  std::shared_ptr<TextGenerator> texts = {};
};

/// A text to log: {"samples/0", "Once upon a time"}.
struct CallbackText {
  std::string tag;
  std::string text;
};

class Callback {
 public:
  virtual ~Callback() = default;

  /// After each update.
  virtual void on_step(int64_t /*step*/) {}
  /// Around an evaluation: EMA puts its weights in and takes them out again.
  virtual void before_eval() {}
  virtual void after_eval() {}
  /// The results of an evaluation: {"eval/loss", 0.1}, ...
  virtual void on_eval(int64_t /*step*/, const std::map<std::string, double>& /*results*/) {}
  /// What it has to tell since it was last asked, after on_step() and on_eval(); for the trackers
  /// and the run's record.
  virtual std::vector<CallbackText> take_texts() { return {}; }
  /// Why training should stop now, if it should.
  virtual std::optional<std::string> stop() const { return std::nullopt; }
  virtual void save(StateDict& /*state*/) const {}
  virtual void load(const StateDict& /*state*/) {}
};

}  // namespace accel
