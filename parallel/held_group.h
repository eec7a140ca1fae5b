// A group of ranks in the context of an autograd function.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <utility>

#include "parallel/communicator.h"

namespace accel {

/// Keeps a group for the backward pass.
class HeldGroup final : public torch::CustomClassHolder {
 public:
  explicit HeldGroup(std::shared_ptr<Communicator> group) : group_(std::move(group)) {}
  Communicator& group() const { return *group_; }

 private:
  std::shared_ptr<Communicator> group_;
};
using HeldGroupPtr = c10::intrusive_ptr<HeldGroup>;

/// `Context` is torch::autograd::AutogradContext.
template <class Context>
void hold(Context* context, const HeldGroupPtr& held) {
  context->saved_data["group"] = at::IValue::make_capsule(held);
}

/// The context keeps it.
template <class Context>
Communicator& group_of(Context* context) {
  return static_cast<HeldGroup&>(*context->saved_data["group"].toCapsule()).group();
}

}  // namespace accel
