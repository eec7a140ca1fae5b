#include "kernels/cpu/gelu.h"

#include "kernels/cpu/vector_math.h"

namespace accel {
namespace {

constexpr float kTwiceRootTwoOverPi = 1.5957691216F;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715F;

// With e = exp(-2u): (1 + tanh(u)) / 2 = 1 / (1 + e) and (1 - tanh(u)) / 2 = e / (1 + e).
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

namespace {

constexpr float kRootOfHalf = 0.70710678F;
constexpr float kDensityAtZero = 0.39894228F;  // 1 / sqrt(2 pi)

struct Normal {
  float share;    ///< cumulative distribution at z
  float density;  ///< at z
};

/// Standard normal distribution. Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26:
/// erfc(u) for u >= 0 within 1.5e-7.
ACCEL_PART_OF_LOOP Normal normal_at(float z) {
  const float u = (z < 0 ? -z : z) * kRootOfHalf;
  const float bell = u < 9.3F ? vector_exp(-u * u) : 0.0F;  // below 1e-37 otherwise
  const float t = 1.0F / (1.0F + 0.3275911F * u);
  float p = 1.061405429F;
  p = p * t - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  const float tail = 0.5F * p * t * bell;
  return {z < 0 ? tail : 1.0F - tail, kDensityAtZero * bell};
}

ACCEL_PART_OF_LOOP void forward(const float* x, const float* bias, float* y, int64_t rows,
                                int64_t width) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
    for (int64_t i = 0; i < width; ++i) {
      const float z = x[i] + bias[i];
      y[i] = z * normal_at(z).share;
    }
  }
}

ACCEL_PART_OF_LOOP void backward(const BiasGeluRows& of, int64_t rows, int64_t width) {
  const float *dy = of.dy, *x = of.x, *bias = of.bias;
  float *dx = of.dx, *sums = of.sums;
  for (int64_t row = 0; row < rows; ++row, dy += width, x += width, dx += width) {
    for (int64_t i = 0; i < width; ++i) {
      const float z = x[i] + bias[i];
      const Normal normal = normal_at(z);
      const float out = dy[i] * (normal.share + z * normal.density);
      dx[i] = out;
      sums[i] += out;
    }
  }
}

/// GELU of a number is its product with `share`.
struct Gelu {
  float share, slope;
};

ACCEL_PART_OF_LOOP Gelu tanh_gelu(float z) {
  const float e = exp_of_argument(z), share = 1.0F / (1.0F + e);
  const float slope = kTwiceRootTwoOverPi * (1.0F + 3.0F * kCubic * z * z);
  return {share, share * (1.0F + z * (e * share) * slope)};
}

ACCEL_PART_OF_LOOP Gelu erf_gelu(float z) {
  const Normal normal = normal_at(z);
  return {normal.share, normal.share + z * normal.density};
}

template <Gelu (*kGelu)(float)>
ACCEL_PART_OF_LOOP void gelu_of(const float* __restrict z, const VectorRows<float>& to) {
  float* __restrict y = to.data;
  for (int64_t row = 0; row < to.count; ++row, z += to.width, y += to.step) {
    for (int64_t i = 0; i < to.width; ++i) y[i] = z[i] * kGelu(z[i]).share;
  }
}

ACCEL_PART_OF_LOOP void gelu(GeluForm form, const float* z, const VectorRows<float>& y) {
  form == GeluForm::kTanh ? gelu_of<tanh_gelu>(z, y) : gelu_of<erf_gelu>(z, y);
}

template <Gelu (*kGelu)(float)>
ACCEL_PART_OF_LOOP void again_of(const GeluRows& of, int64_t rows, int64_t width) {
  const float* __restrict z = of.z, * __restrict dy = of.dy;
  float* __restrict y = of.y, * __restrict dz = of.dz, * __restrict sums = of.sums;
  for (int64_t row = 0; row < rows; ++row, z += width, dy += width, y += width, dz += width) {
    for (int64_t i = 0; i < width; ++i) {
      const Gelu gelu = kGelu(z[i]);
      y[i] = z[i] * gelu.share;
      const float out = dy[i] * gelu.slope;
      dz[i] = out;
      sums[i] += out;
    }
  }
}

ACCEL_PART_OF_LOOP void again(GeluForm form, const GeluRows& of, int64_t rows, int64_t width) {
  form == GeluForm::kTanh ? again_of<tanh_gelu>(of, rows, width)
                          : again_of<erf_gelu>(of, rows, width);
}

}  // namespace

ACCEL_FOR_EACH_CPU(gelu_cpu, gelu, (GeluForm form, const float* z, const VectorRows<float>& y),
                   (form, z, y))
ACCEL_FOR_EACH_CPU(gelu_again_cpu, again,
                   (GeluForm form, const GeluRows& of, int64_t rows, int64_t width),
                   (form, of, rows, width))
ACCEL_FOR_EACH_CPU(bias_gelu_cpu, forward,
                   (const float* x, const float* bias, float* y, int64_t rows, int64_t width),
                   (x, bias, y, rows, width))
ACCEL_FOR_EACH_CPU(bias_gelu_backward_cpu, backward,
                   (const BiasGeluRows& of, int64_t rows, int64_t width), (of, rows, width))

}  // namespace accel
