// Callback: observes a run, adds state and texts to it, and may stop it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/api/batch.h"
#include "core/api/schedule.h"
#include "core/api/state_swapper.h"

namespace accel {

class TextGenerator;

struct CallbackContext {
  /// Of the model, sharing memory. Sharded ones are this rank's part.
  std::vector<Parameter> parameters;
  std::vector<Parameter> buffers;
  std::vector<std::string> metrics;  ///< names an evaluation reports: "eval/loss", "eval/accuracy"
  ScheduleContext length = {};       ///< of the run
  /// Generates texts with the current weights, on all ranks; null unless model and data are text.
  std::shared_ptr<TextGenerator> texts = {};
  /// Of parameters that are swapped; null: all are in memory.
  std::shared_ptr<StateSwapper> swapper = {};
};

/// A text to log: {"samples/0", "Once upon a time"}.
struct CallbackText {
  std::string tag;
  std::string text;
};

class Callback {
 public:
  virtual ~Callback() = default;

  /// Whether it swaps parameters in by CallbackContext::swapper where it accesses them, or does not
  /// access them.
  virtual bool supports_swapping() const { return false; }
  /// After each update.
  virtual void on_step(int64_t /*step*/) {}
  /// Around an evaluation: EMA swaps its average in and the weights back.
  virtual void before_eval() {}
  virtual void after_eval() {}
  /// The results of an evaluation: {"eval/loss", 0.1}, ...
  virtual void on_eval(int64_t /*step*/, const std::map<std::string, double>& /*results*/) {}
  /// Texts since the last call, for the trackers and the run's record. Called after on_step() and
  /// on_eval().
  virtual std::vector<CallbackText> take_texts() { return {}; }
  /// The reason to stop training now; none to continue.
  virtual std::optional<std::string> stop() const { return std::nullopt; }
  /// A tensor with the name and shape of a parameter is divided over ranks as the parameter is.
  virtual void save(StateDict& /*state*/) const {}
  virtual void load(const StateDict& /*state*/) {}
};

}  // namespace accel
