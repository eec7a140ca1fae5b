// A communicator that an autograd graph keeps for its backward pass.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <utility>

#include "parallel/communicator.h"

namespace accel {

class HeldGroup final : public torch::CustomClassHolder {
 public:
  explicit HeldGroup(std::shared_ptr<Communicator> group) : group_(std::move(group)) {}
  Communicator& group() const { return *group_; }

 private:
  std::shared_ptr<Communicator> group_;
};
using HeldGroupPtr = c10::intrusive_ptr<HeldGroup>;

inline void hold(torch::autograd::AutogradContext* context, const HeldGroupPtr& held) {
  context->saved_data["group"] = at::IValue::make_capsule(held);
}

/// Of hold(). The context keeps it.
inline Communicator& group_of(torch::autograd::AutogradContext* context) {
  const auto held = context->saved_data["group"].toCapsule();
  return static_cast<HeldGroup&>(*held).group();
}

}  // namespace accel
