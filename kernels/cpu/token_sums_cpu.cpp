#include "core/base/cpu_target.h"
#include "kernels/cpu/token_sums.h"
#include "kernels/cpu/vector_math.h"

namespace accel {
namespace {

constexpr int64_t kTokens = 8;  // at a time: sums are loaded and stored once for all

/// `numbers`: [kTokens, kMostTokenWidth].
template <typename Number>
ACCEL_PART_OF_LOOP void load_tokens(const TokenStates<Number>& values, int64_t first, int64_t count,
                                    float* numbers) {
  for (int64_t token = 0; token < kTokens; ++token) {
    float* const to = numbers + token * kMostTokenWidth;
    const Number* const from = values.data + (first + token) * values.step;
    if (token < count) {
      for (int64_t i = 0; i < values.width; ++i) to[i] = to_float(from[i]);
    } else {
      for (int64_t i = 0; i < values.width; ++i) to[i] = 0;
    }
  }
}

ACCEL_PART_OF_LOOP void add_tokens(const float* numbers, const float* weights, int64_t width,
                                   float* sums) {
  constexpr int64_t kStep = kMostTokenWidth;
  const float w0 = weights[0], w1 = weights[1], w2 = weights[2], w3 = weights[3];
  const float w4 = weights[4], w5 = weights[5], w6 = weights[6], w7 = weights[7];
  for (int64_t i = 0; i < width; ++i) {
    const float* const x = numbers + i;
    const float first = w0 * x[0] + w1 * x[kStep] + w2 * x[2 * kStep] + w3 * x[3 * kStep];
    const float second =
        w4 * x[4 * kStep] + w5 * x[5 * kStep] + w6 * x[6 * kStep] + w7 * x[7 * kStep];
    sums[i] += first + second;
  }
}

template <typename Number>
ACCEL_PART_OF_LOOP void token_sums(const TokenStates<Number>& values, const TokenWeights& by,
                                   float* sums) {
  for (int64_t i = 0; i < by.queries * values.width; ++i) sums[i] = 0;
  float numbers[kTokens * kMostTokenWidth], weights[kTokens];
  for (int64_t first = 0; first < values.count; first += kTokens) {
    const int64_t rest = values.count - first, count = rest < kTokens ? rest : kTokens;
    load_tokens(values, first, count, numbers);
    for (int64_t query = 0; query < by.queries; ++query) {
      const float* const of_query = by.weights + query * values.count + first;
      for (int64_t token = 0; token < kTokens; ++token) {
        const float scale = by.scales != nullptr && token < count ? by.scales[first + token] : 1.0F;
        weights[token] = token < count ? of_query[token] * scale : 0.0F;
      }
      add_tokens(numbers, weights, values.width, sums + query * values.width);
    }
  }
}

}  // namespace

ACCEL_FOR_EACH_CPU(token_sums_cpu, token_sums,
                   (const TokenStates<float>& values, const TokenWeights& by, float* sums),
                   (values, by, sums))
ACCEL_FOR_EACH_CPU(token_sums_cpu, token_sums,
                   (const TokenStates<uint16_t>& values, const TokenWeights& by, float* sums),
                   (values, by, sums))
ACCEL_FOR_EACH_CPU(token_sums_cpu, token_sums,
                   (const TokenStates<int8_t>& values, const TokenWeights& by, float* sums),
                   (values, by, sums))

}  // namespace accel
