// Fake tensors: memory and FLOPs of a computation without running it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <optional>

#include "kernels/choice.h"
#include "runner/plan/fake_tensor.h"

namespace accel {

/// While it lives, this thread's operators on CPU tensors compute nothing. They return fake tensors
/// of the right shapes, types and aliasing; autograd and autocast work as usual. The contents are
/// zeros without memory until something writes to them directly; item() returns 1. The tensors may
/// outlive the mode. The random generator is restored at the end.
class FakeTensorMode {
 public:
  explicit FakeTensorMode(std::shared_ptr<WorkMeter> meter);
  ~FakeTensorMode();
  FakeTensorMode(const FakeTensorMode&) = delete;
  FakeTensorMode& operator=(const FakeTensorMode&) = delete;

 private:
  at::Tensor generator_;  // the state to restore
  std::shared_ptr<WorkMeter> outer_;
  ShapesOnly shapes_only_;
  std::optional<c10::impl::IncludeDispatchKeyGuard> guard_;
};

/// While it lives, operators in a FakeTensorMode of this thread throw Error once `seconds` have
/// passed.
class FakeTimeLimit {
 public:
  explicit FakeTimeLimit(double seconds);
  ~FakeTimeLimit();
  FakeTimeLimit(const FakeTimeLimit&) = delete;
  FakeTimeLimit& operator=(const FakeTimeLimit&) = delete;
};

/// While it lives, operators in a FakeTensorMode of this thread throw MemoryLimitError once the
/// peak of its tensors exceeds `bytes`.
class FakeMemoryLimit {
 public:
  explicit FakeMemoryLimit(int64_t bytes);
  ~FakeMemoryLimit();
  FakeMemoryLimit(const FakeMemoryLimit&) = delete;
  FakeMemoryLimit& operator=(const FakeMemoryLimit&) = delete;
};

}  // namespace accel
