#include "models/layers/dropout_off.h"

#include "core/api/expert_parallel.h"
#include "core/api/model.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/module_state.h"

namespace accel {

DropoutOff::DropoutOff(Model& model) : model_(model) {
  const auto* experts = dynamic_cast<const ExpertParallel*>(&model);
  if (!experts || experts->num_experts() == 0) {
    set_training(model, false);
    return;
  }
  // Models with experts balance their load in training mode only: just the adapters leave it.
  for (const auto& module : model.module().modules(false)) {
    if (dynamic_cast<AdaptedLinearImpl*>(module.get())) module->eval();
  }
}

DropoutOff::~DropoutOff() {
  set_training(model_, true);
}

}  // namespace accel
