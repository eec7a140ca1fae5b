// Uninitialized memory at whole cache lines.
#pragma once

#include <ATen/ops/empty.h>

#include <cstdint>

namespace accel {

/// `count` float32 of PyTorch's allocator, and of fake tensors where they replace it. A panel that
/// begins elsewhere takes twice as long to read.
class AlignedNumbers {
 public:
  explicit AlignedNumbers(int64_t count)
      : memory_(at::empty({count + kFloatsOfLine}, at::kFloat)) {}

  float* get() const {
    auto* numbers = memory_.mutable_data_ptr<float>();
    while (reinterpret_cast<uintptr_t>(numbers) % (kFloatsOfLine * sizeof(float)) != 0) ++numbers;
    return numbers;
  }

 private:
  static constexpr int64_t kFloatsOfLine = 16;

  at::Tensor memory_;
};

}  // namespace accel
