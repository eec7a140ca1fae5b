// What may watch and stop a run without being part of the step.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/batch.h"

namespace accel {

struct CallbackContext {
  std::vector<NamedTensor> parameters;  ///< of the model, sharing memory
  std::vector<NamedTensor> buffers;
  std::vector<std::string> metrics;  ///< names an evaluation reports: "eval/loss", "eval/accuracy"
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
  /// Why training should stop now, if it should.
  virtual std::optional<std::string> stop() const { return std::nullopt; }
  virtual void save(StateDict& /*state*/) const {}
  virtual void load(const StateDict& /*state*/) {}
};

}  // namespace accel
