// Arrays in the memory of the kernels under test: those for the CPU, or the library that
// ACCEL_CUDA_LIBRARY names, such as a libaccel_cuda.so on a machine with a GPU.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/environment.h"
#include "core/base/shared_library.h"
#include "kernels/cuda/numbers.h"
#include "kernels/cuda/table.h"

extern "C" const accel::CudaTable* accel_cuda_table();

namespace accel::cuda_test {

using cuda::Bf16;
using cuda::kInfinity;
using cuda::philox;
using cuda::round_randomly;
using cuda::round_to;
using cuda::to_float;

inline const CudaTable* load_table() {
  const std::optional<std::string> path = environment_variable("ACCEL_CUDA_LIBRARY");
  if (!path) return accel_cuda_table();
  SharedLibrary library(*path);
  CudaTableFunction* function = nullptr;
  if (!library.find(kCudaTableSymbol, function)) throw std::runtime_error(library.error());
  const CudaTable* table = function();
  const std::string problem = table->problem(0);
  if (!problem.empty()) throw std::runtime_error(problem);
  return table;
}

inline const CudaTable& table() {
  static const CudaTable* const loaded = load_table();
  return *loaded;
}

/// Fails the test unless the kernel was launched.
inline void expect_launched(int32_t code) {
  EXPECT_EQ(code, 0) << table().error_text(code);
}

inline void set(float x, float* to) {
  *to = x;
}
inline void set(float x, Bf16* to) {
  round_to(x, to);
}
inline void set(float x, int64_t* to) {
  *to = static_cast<int64_t>(x);
}

template <class Number>
std::vector<Number> as(const std::vector<float>& numbers) {
  std::vector<Number> to(numbers.size());
  for (size_t i = 0; i < to.size(); ++i) set(numbers[i], &to[i]);
  return to;
}

/// Standard normal numbers.
inline std::vector<float> drawn(size_t count, unsigned seed, float scale = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> to(count);
  for (float& x : to) x = normal(generator);
  return to;
}

/// Rounded to the type, back in float32.
template <class Number>
std::vector<float> rounded(const std::vector<float>& numbers) {
  std::vector<float> to;
  for (const Number& x : as<Number>(numbers)) to.push_back(to_float(x));
  return to;
}

/// `offset` elements after an address that is a multiple of 256 bytes on a GPU, of 16 on the CPU.
template <class Number>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<Number>& from, size_t offset = 0)
      : count_(from.size()), offset_(offset) {
    expect_launched(
        table().allocate(bytes() + static_cast<int64_t>(offset * sizeof(Number)) + 1, &memory_));
    expect_launched(table().copy(get(), from.data(), bytes()));
  }
  explicit OnDevice(size_t count) : OnDevice(std::vector<Number>(count)) {}
  ~OnDevice() { table().release(memory_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  Number* get() const { return static_cast<Number*>(memory_) + offset_; }
  std::vector<Number> host() const {
    std::vector<Number> to(count_);
    expect_launched(table().copy(to.data(), get(), bytes()));
    return to;
  }
  std::vector<float> floats() const {
    std::vector<float> to;
    for (const Number& x : host()) to.push_back(to_float(x));
    return to;
  }

 private:
  int64_t bytes() const { return static_cast<int64_t>(count_ * sizeof(Number)); }

  size_t count_, offset_;
  void* memory_ = nullptr;
};

template <class Number>
constexpr CudaType kTypeOf = sizeof(Number) == 4 ? CudaType::kFloat : CudaType::kBFloat16;
/// Relative rounding error of a result, at most.
template <class Number>
constexpr double kRounding = sizeof(Number) == 4 ? 1e-6 : 1.0 / 256;

/// |found - wanted| <= absolute + relative |wanted| for all elements.
template <class Wanted>
void expect_near(const std::vector<float>& found, const std::vector<Wanted>& wanted,
                 double relative, double absolute) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const double bound = absolute + relative * std::abs(static_cast<double>(wanted[i]));
    ASSERT_NEAR(found[i], wanted[i], bound) << "element " << i;
  }
}

using Types = testing::Types<float, Bf16>;

}  // namespace accel::cuda_test
