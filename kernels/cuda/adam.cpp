#include "kernels/cuda/block.h"
#include "kernels/cuda/kernels.h"

namespace accel::cuda {
namespace {

constexpr int kMostTensors = 48;  // per launch: kernel arguments have at most 4 KiB
constexpr int kCount = 4;         // elements per access

struct AdamBatch {
  // As AdamFactors of kernels/cpu/loops.h, but for what depends on the step.
  float decay, weight_decay, new_share, beta2, new_square_share, eps, lr, new_ema_share;
  float log_beta1, log_beta2;
  const float *gradient_factor, *skip;
  uint64_t seed;
  bool rounds_stochastically;
  int32_t tensors;
  uint32_t first_tensor;  ///< its number among all
  CudaAdamTensor at[kMostTensors];
  int32_t first_block[kMostTensors + 1];  ///< blocks of tensor i: first_block[i] to [i + 1]
};
static_assert(sizeof(AdamBatch) <= 4096);

AdamBatch batch_of(const CudaAdam& rule) {
  AdamBatch batch = {};
  const double decay = rule.is_decoupled ? 1 - rule.lr * rule.weight_decay : 1;
  batch.decay = static_cast<float>(decay);
  batch.weight_decay = rule.is_decoupled ? 0 : static_cast<float>(rule.weight_decay);
  batch.new_share = static_cast<float>(1 - rule.beta1);
  batch.beta2 = static_cast<float>(rule.beta2);
  batch.new_square_share = static_cast<float>(1 - rule.beta2);
  batch.eps = static_cast<float>(rule.eps);
  batch.lr = static_cast<float>(rule.lr);
  batch.new_ema_share = static_cast<float>(1 - rule.ema_decay);
  batch.log_beta1 = static_cast<float>(std::log(rule.beta1));
  batch.log_beta2 = static_cast<float>(std::log(rule.beta2));
  batch.gradient_factor = rule.gradient_factor;
  batch.skip = rule.skip;
  batch.seed = rule.seed;
  batch.rounds_stochastically = rule.rounds_stochastically;
  return batch;
}

/// What depends on the step of a tensor.
struct StepFactors {
  float root_correction, step_size, gradient_factor, step;

  ACCEL_ON_DEVICE StepFactors(const AdamBatch& in, float number) {
    // 1 - beta^step without cancellation
    root_correction = sqrtf(-expm1f(number * in.log_beta2));
    step_size = in.lr / -expm1f(number * in.log_beta1);
    gradient_factor = in.gradient_factor ? in.gradient_factor[0] : 1;
    step = number;
  }
};

/// Elements i to i + kCount of an array of `count`, fewer at its end.
template <class Number>
ACCEL_ON_DEVICE Pack<Number, kCount> load_some(const void* from, int64_t i, int64_t count) {
  const auto* at = static_cast<const Number*>(from) + i;
  if (i + kCount <= count && reinterpret_cast<uintptr_t>(at) % (kCount * sizeof(Number)) == 0) {
    return load<kCount>(at);
  }
  Pack<Number, kCount> pack = {};
  for (int j = 0; j < kCount; ++j) {
    if (i + j < count) pack.at[j] = at[j];
  }
  return pack;
}

template <class Number>
ACCEL_ON_DEVICE void store_some(const Pack<Number, kCount>& pack, void* to, int64_t i,
                                int64_t count) {
  auto* at = static_cast<Number*>(to) + i;
  if (i + kCount <= count && reinterpret_cast<uintptr_t>(at) % (kCount * sizeof(Number)) == 0) {
    return store(pack, at);
  }
  for (int j = 0; j < kCount; ++j) {
    if (i + j < count) at[j] = pack.at[j];
  }
}

/// 16 random bits for each of kCount parameters and their two moments.
struct RandomBits {
  uint32_t words[8];

  ACCEL_ON_DEVICE RandomBits(uint64_t seed, uint32_t tensor, int64_t i, float step) {
    const auto place = static_cast<uint64_t>(i) / kCount;
    for (uint32_t half = 0; half < 2; ++half) {
      uint32_t counter[4] = {static_cast<uint32_t>(place), static_cast<uint32_t>(place >> 32U),
                             tensor * 2 + half, static_cast<uint32_t>(step)};
      philox(seed, counter);
      for (int j = 0; j < 4; ++j) words[4 * half + j] = counter[j];
    }
  }
  /// kind: 0 parameter, 1 average, 2 square.
  ACCEL_ON_DEVICE uint32_t bits(int kind, int j) const {
    return words[2 * kind + j / 2] >> (j % 2 * 16);
  }
};

/// Each thread updates kPasses packs.
template <class Number, class Moment>
struct AdamStep {
  static constexpr int kThreads = 256;
  static constexpr int kPasses = 4;
  static constexpr int64_t kOfBlock = kThreads * kCount * kPasses;
  using Args = AdamBatch;

  struct Elements {
    Pack<Number, kCount> parameter;
    Pack<Moment, kCount> average, square;
  };

  /// The new parameters in float32, for the moving average.
  ACCEL_ON_DEVICE static Pack<float, kCount> step(const AdamBatch& in, const StepFactors& by,
                                                  const Pack<Number, kCount>& gradients,
                                                  const RandomBits* random, Elements* of) {
    Pack<float, kCount> out;
    for (int j = 0; j < kCount; ++j) {
      const float p = to_float(of->parameter.at[j]);
      const float g = to_float(gradients.at[j]) * by.gradient_factor + p * in.weight_decay;
      const float m = to_float(of->average.at[j]), v = to_float(of->square.at[j]);
      const float average = m + in.new_share * (g - m);
      const float square = v * in.beta2 + in.new_square_share * g * g;
      const float divisor = sqrtf(square) / by.root_correction + in.eps;
      const float next = p * in.decay - by.step_size * average / divisor;
      if (random) {
        round_randomly(next, random->bits(0, j), of->parameter.at + j);
        round_randomly(average, random->bits(1, j), of->average.at + j);
        round_randomly(square, random->bits(2, j), of->square.at + j);
      } else {
        round_to(next, of->parameter.at + j);
        round_to(average, of->average.at + j);
        round_to(square, of->square.at + j);
      }
      out.at[j] = next;
    }
    return out;
  }

  ACCEL_ON_DEVICE static void update(const AdamBatch& in, const StepFactors& by, int which,
                                     int64_t i) {
    const CudaAdamTensor& to = in.at[which];
    if (i >= to.count) return;
    Elements of = {load_some<Number>(to.parameter, i, to.count),
                   load_some<Moment>(to.average, i, to.count),
                   load_some<Moment>(to.square, i, to.count)};
    const auto gradients = load_some<Number>(to.gradient, i, to.count);
    Pack<float, kCount> next;
    if (in.rounds_stochastically) {
      const uint32_t tensor = in.first_tensor + static_cast<uint32_t>(which);
      const RandomBits random(in.seed, tensor, i, by.step);
      next = step(in, by, gradients, &random, &of);
    } else {
      next = step(in, by, gradients, nullptr, &of);
    }
    store_some(of.parameter, to.parameter, i, to.count);
    store_some(of.average, to.average, i, to.count);
    store_some(of.square, to.square, i, to.count);
    if (!to.ema) return;
    auto ema = load_some<float>(to.ema, i, to.count);
    for (int j = 0; j < kCount; ++j) ema.at[j] += in.new_ema_share * (next.at[j] - ema.at[j]);
    store_some(ema, to.ema, i, to.count);
  }

  template <class Block>
  ACCEL_ON_DEVICE static void run(Block& block, const Args& in) {
    if (in.skip && in.skip[0] != 0) return;
    int which = 0, after = in.tensors;  // the tensor of this block, by bisection
    while (after - which > 1) {
      const int middle = (which + after) / 2;
      (block.index() >= in.first_block[middle] ? which : after) = middle;
    }
    const int64_t first = (block.index() - in.first_block[which]) * kOfBlock;
    const StepFactors by(in, in.at[which].step[0]);
    block.run([&](int thread) {
      for (int pass = 0; pass < kPasses; ++pass) {
        update(in, by, which, first + (pass * kThreads + thread) * kCount);
      }
    });
  }
};

template <class Number, class Moment>
int32_t run(const CudaAdam& rule, const CudaAdamTensor* tensors, int64_t count, void* stream) {
  using Step = AdamStep<Number, Moment>;
  AdamBatch batch = batch_of(rule);
  for (int64_t first = 0; first < count; first += kMostTensors) {
    batch.first_tensor = static_cast<uint32_t>(first);
    batch.tensors =
        static_cast<int32_t>(count - first < kMostTensors ? count - first : kMostTensors);
    for (int32_t i = 0; i < batch.tensors; ++i) {
      batch.at[i] = tensors[first + i];
      const auto blocks = static_cast<int32_t>(blocks_of(batch.at[i].count, Step::kOfBlock));
      batch.first_block[i + 1] = batch.first_block[i] + blocks;
    }
    const int32_t code = launch<Step>(batch, batch.first_block[batch.tensors], stream);
    if (code != 0) return code;
  }
  return 0;
}

}  // namespace

int32_t adam(const CudaAdam* rule, const CudaAdamTensor* tensors, int64_t count, void* stream) {
  const bool is_wide = rule->moment_type == CudaType::kFloat;
  if (rule->parameter_type == CudaType::kFloat) {
    return is_wide ? run<float, float>(*rule, tensors, count, stream)
                   : run<float, Bf16>(*rule, tensors, count, stream);
  }
  return is_wide ? run<Bf16, float>(*rule, tensors, count, stream)
                 : run<Bf16, Bf16>(*rule, tensors, count, stream);
}

}  // namespace accel::cuda
