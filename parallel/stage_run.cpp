#include "parallel/stage_run.h"

#include <c10/core/GradMode.h>

namespace accel {

void StageRun::transfer(const PipelineAction& action, const std::string& shapes) {
  const PipelineMessage message = message_of(layout_, action);
  InFlight& pass = at(action);
  switch (action.kind) {
    case ActionKind::kSendActivation:
      messages_.send(message, pass.output, shapes);
      if (!c10::GradMode::is_enabled()) pass.output.reset();
      return;
    case ActionKind::kReceiveActivation:
      pass.received = messages_.receive_activation(message, shapes);
      return;
    case ActionKind::kSendGradient:
      messages_.send(message, pass.input_gradient, "");
      pass.input_gradient.reset();
      return;
    default:
      pass.gradient = messages_.receive_gradient(message, pass.output);
  }
}

void StageRun::look_ahead(size_t from, const std::function<std::string(int64_t)>& shapes_of) {
  for (size_t k = from; k < actions_.size(); ++k) {
    const PipelineAction& action = actions_[k];
    if (!is_message(action.kind) || is_send(action.kind)) continue;
    const PipelineMessage message = message_of(layout_, action);
    if (action.kind == ActionKind::kReceiveActivation) {
      messages_.expect_activation(message, shapes_of(action.micro_batch));
    } else if (const auto pass = in_flight_.find({action.stage, action.micro_batch});
               pass != in_flight_.end() && pass->second.output.defined()) {
      messages_.expect_gradient(message, pass->second.output);
    }
    return;
  }
}

void StageRun::forward(const PipelineAction& action, const std::function<at::Tensor()>& compute) {
  const bool trains = c10::GradMode::is_enabled();
  InFlight& pass = at(action);
  if (trains && pass.received.defined()) pass.received.requires_grad_(true);
  at::Tensor loss;
  StagePass made = blocks_.run(action.stage, pass.received, [&] { loss = compute(); });
  pass.received.reset();
  const bool ends = action.stage + 1 == layout_.stages();
  const bool sends = layout_.sends_after(action.stage);
  // The next stage on the same rank gets a separate leaf.
  if (!ends && !sends) {
    in_flight_[{action.stage + 1, action.micro_batch}].received = made.output.detach();
  }
  if (trains) {
    pass.input = std::move(made.input);
    pass.output = std::move(ends ? loss : made.output);
  } else if (!ends && sends) {
    pass.output = std::move(made.output);
  }
}

void StageRun::hand_back(const PipelineAction& action, at::Tensor gradient) {
  if (action.stage == 0) return;
  if (layout_.sends_after(action.stage - 1)) {
    at(action).input_gradient = std::move(gradient);
  } else {
    in_flight_[{action.stage - 1, action.micro_batch}].gradient = std::move(gradient);
  }
}

void StageRun::backward(const PipelineAction& action) {
  InFlight& pass = at(action);
  // All of a first stage may be frozen.
  if (pass.output.requires_grad()) pass.output.backward(pass.gradient);
  pass.output.reset();
  pass.gradient.reset();
  // That of the first stage is computed, not received.
  const at::Tensor input = std::exchange(pass.input, {});
  if (action.stage > 0) hand_back(action, input.grad());
}

void StageRun::backward_input(const PipelineAction& action) {
  InFlight& pass = at(action);
  at::Tensor gradient;
  if (pass.output.requires_grad()) {
    gradient = pass.split.run_input(pass.output, pass.gradient, pass.input);
  }
  pass.output.reset();
  pass.gradient.reset();
  pass.input.reset();
  hand_back(action, std::move(gradient));
}

void StageRun::backward_weight(const PipelineAction& action) {
  at(action).split.run_weights();
}

}  // namespace accel
