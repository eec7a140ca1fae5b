#include "kernels/cpu/loops.h"
#include "kernels/cpu/vector_math.h"

namespace accel {
namespace {

ACCEL_PART_OF_LOOP float sigmoid(float x) {
  return 1.0F / (1.0F + vector_exp(-x));
}

template <typename Number>
ACCEL_PART_OF_LOOP void forward(const Number* gate, const Number* up, Number* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float in = to_float(gate[i]);
    from_float(in * sigmoid(in) * to_float(up[i]), y + i);
  }
}

template <typename Number>
ACCEL_PART_OF_LOOP void backward(const SwigluSlopes<Number>& of, int64_t count) {
  const Number *dy = of.dy, *gate = of.gate, *up = of.up;
  Number *dgate = of.dgate, *dup = of.dup;
  for (int64_t i = 0; i < count; ++i) {
    const float in = to_float(gate[i]), slope = to_float(dy[i]);
    const float share = sigmoid(in);
    from_float(slope * to_float(up[i]) * share * (1.0F + in * (1.0F - share)), dgate + i);
    from_float(slope * in * share, dup + i);
  }
}

}  // namespace

ACCEL_FOR_EACH_CPU(swiglu_cpu, forward,
                   (const float* gate, const float* up, float* y, int64_t count),
                   (gate, up, y, count))
ACCEL_FOR_EACH_CPU(swiglu_cpu, forward,
                   (const uint16_t* gate, const uint16_t* up, uint16_t* y, int64_t count),
                   (gate, up, y, count))
ACCEL_FOR_EACH_CPU(swiglu_backward_cpu, backward, (const SwigluSlopes<float>& of, int64_t count),
                   (of, count))
ACCEL_FOR_EACH_CPU(swiglu_backward_cpu, backward, (const SwigluSlopes<uint16_t>& of, int64_t count),
                   (of, count))

}  // namespace accel
