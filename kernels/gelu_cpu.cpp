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

template <typename Number>
ACCEL_PART_OF_LOOP void forward(const Number* x, Number* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float in = to_float(x[i]);
    from_float(in / (1.0F + exp_of_argument(in)), y + i);
  }
}

template <typename Number>
ACCEL_PART_OF_LOOP void backward(const Number* dy, const Number* x, Number* dx, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float in = to_float(x[i]);
    const float e = exp_of_argument(in);
    const float share = 1.0F / (1.0F + e);
    const float slope = kTwiceRootTwoOverPi * (1.0F + 3.0F * kCubic * in * in);
    from_float(to_float(dy[i]) * share * (1.0F + in * (e * share) * slope), dx + i);
  }
}

}  // namespace

ACCEL_FOR_EACH_CPU(gelu_tanh_cpu, forward, (const float* x, float* y, int64_t count), (x, y, count))
ACCEL_FOR_EACH_CPU(gelu_tanh_backward_cpu, backward,
                   (const float* dy, const float* x, float* dx, int64_t count), (dy, x, dx, count))
ACCEL_FOR_EACH_CPU(gelu_tanh_cpu, forward, (const uint16_t* x, uint16_t* y, int64_t count),
                   (x, y, count))
ACCEL_FOR_EACH_CPU(gelu_tanh_backward_cpu, backward,
                   (const uint16_t* dy, const uint16_t* x, uint16_t* dx, int64_t count),
                   (dy, x, dx, count))

}  // namespace accel
