#include "parallel/stage_run.h"

#include <c10/core/GradMode.h>

#include <stdexcept>

namespace accel {

void StageRun::transfer(const PipelineAction& action, const std::string& shapes) {
  const PipelineMessage message = message_of(layout_, action);
  InFlight& pass = at(action);
  switch (action.kind) {
    case ActionKind::kSendActivation:
      messages_.send(message, {pass.output, pass.loss ? pass.loss->sums() : at::Tensor()}, shapes);
      if (!c10::GradMode::is_enabled()) pass.output.reset();
      return;
    case ActionKind::kReceiveActivation:
      pass.received = messages_.receive_activation(message, shapes, loss_sizes_.sums);
      return;
    case ActionKind::kSendGradient:
      messages_.send(message, pass.input_gradient, "");
      pass.input_gradient = {};
      return;
    default:
      pass.gradient = messages_.receive_gradient(message, pass.output, loss_sizes_.gradient);
  }
}

void StageRun::look_ahead(size_t from, const std::function<std::string(int64_t)>& shapes_of) {
  for (size_t k = from; k < actions_.size(); ++k) {
    const PipelineAction& action = actions_[k];
    if (!is_message(action.kind) || is_send(action.kind)) continue;
    const PipelineMessage message = message_of(layout_, action);
    if (action.kind == ActionKind::kReceiveActivation) {
      messages_.expect_activation(message, shapes_of(action.micro_batch), loss_sizes_.sums);
    } else if (const auto pass = in_flight_.find({action.stage, action.micro_batch});
               pass != in_flight_.end() && pass->second.output.defined()) {
      messages_.expect_gradient(message, pass->second.output, loss_sizes_.gradient);
    }
    return;
  }
}

StagePass StageRun::run(const PipelineAction& action, const std::function<void()>& compute) {
  InFlight& pass = at(action);
  const bool has_loss = loss_sizes_.sums > 0;
  if (has_loss) loss_->begin_stage(pass.received.numbers);
  StagePass made = blocks_.run(action.stage, pass.received.values, compute);
  pass.received = {};
  if (!has_loss) return made;
  pass.loss = loss_->end_stage();
  if (!pass.loss) throw std::logic_error("a stage has no part of the loss of all stages");
  return made;
}

void StageRun::forward(const PipelineAction& action, const std::function<at::Tensor()>& compute) {
  const bool trains = c10::GradMode::is_enabled();
  InFlight& pass = at(action);
  if (trains && pass.received.values.defined()) pass.received.values.requires_grad_(true);
  at::Tensor loss;
  StagePass made = run(action, [&] { loss = compute(); });
  const bool ends = action.stage + 1 == layout_.stages();
  const bool sends = layout_.sends_after(action.stage);
  // The next stage on the same rank gets a separate leaf.
  if (!ends && !sends) {
    in_flight_[{action.stage + 1, action.micro_batch}].received = {
        made.output.detach(), pass.loss ? pass.loss->sums() : at::Tensor()};
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
  InFlight& pass = at(action);
  StageTensors all = {std::move(gradient), pass.loss ? pass.loss->gradient() : at::Tensor()};
  if (layout_.sends_after(action.stage - 1)) {
    pass.input_gradient = std::move(all);
  } else {
    in_flight_[{action.stage - 1, action.micro_batch}].gradient = std::move(all);
  }
}

void StageRun::begin_backward(const InFlight& pass) const {
  if (pass.gradient.numbers.defined()) pass.loss->set_gradient(pass.gradient.numbers);
}

void StageRun::backward(const PipelineAction& action) {
  InFlight& pass = at(action);
  begin_backward(pass);
  // All of a first stage may be frozen.
  if (pass.output.requires_grad()) pass.output.backward(pass.gradient.values);
  pass.output.reset();
  pass.gradient = {};
  // That of the first stage is computed, not received.
  const at::Tensor input = std::exchange(pass.input, {});
  if (action.stage > 0) hand_back(action, input.grad());
}

void StageRun::backward_input(const PipelineAction& action) {
  InFlight& pass = at(action);
  begin_backward(pass);
  at::Tensor gradient;
  if (pass.output.requires_grad()) {
    gradient = pass.split.run_input(pass.output, pass.gradient.values, pass.input);
  }
  pass.output.reset();
  pass.gradient = {};
  pass.input.reset();
  hand_back(action, std::move(gradient));
}

void StageRun::backward_weight(const PipelineAction& action) {
  at(action).split.run_weights();
}

}  // namespace accel
