#include "kernels/gelu_cpu.h"

#include "kernels/vector_math.h"

namespace accel {
namespace {

constexpr float kTwiceRootTwoOverPi = 1.5957691216F;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715F;

// With e = exp(-2u), (1 + tanh(u)) / 2 is 1 / (1 + e), and 1 less that is e / (1 + e).
ACCEL_PART_OF_LOOP float exp_of_argument(float x) {
  return vector_exp(-kTwiceRootTwoOverPi * x * (1.0F + kCubic * x * x));
}

ACCEL_PART_OF_LOOP void forward(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] / (1.0F + exp_of_argument(x[i]));
}

ACCEL_PART_OF_LOOP void backward(const float* dy, const float* x, float* dx, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float e = exp_of_argument(x[i]);
    const float share = 1.0F / (1.0F + e);
    const float slope = kTwiceRootTwoOverPi * (1.0F + 3.0F * kCubic * x[i] * x[i]);
    dx[i] = dy[i] * share * (1.0F + x[i] * (e * share) * slope);
  }
}

}  // namespace

ACCEL_FOR_EACH_CPU(gelu_tanh_cpu, forward, (const float* x, float* y, int64_t count), (x, y, count))
ACCEL_FOR_EACH_CPU(gelu_tanh_backward_cpu, backward,
                   (const float* dy, const float* x, float* dx, int64_t count), (dy, x, dx, count))

}  // namespace accel
