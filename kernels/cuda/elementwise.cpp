#include "kernels/cuda/block.h"
#include "kernels/cuda/kernels.h"

namespace accel::cuda {
namespace {

constexpr float kTwiceRootTwoOverPi = 1.5957691216F;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715F;
constexpr float kRootOfHalf = 0.70710678F;
constexpr float kDensityAtZero = 0.39894228F;  // 1 / sqrt(2 pi)

/// An activation and its derivative at x, of which a gradient is the product with `slope`.
struct Slope {
  float value, slope;
};

template <CudaActivation kKind>
ACCEL_ON_DEVICE Slope activation_at(float x) {
  if constexpr (kKind == CudaActivation::kGeluTanh) {
    // With e = exp(-2u): (1 + tanh(u)) / 2 = 1 / (1 + e) and (1 - tanh(u)) / 2 = e / (1 + e).
    const float e = finite_exp(-kTwiceRootTwoOverPi * x * (1 + kCubic * x * x));
    const float share = 1 / (1 + e);
    const float inner = kTwiceRootTwoOverPi * (1 + 3 * kCubic * x * x);
    return {x * share, share * (1 + x * (e * share) * inner)};
  } else if constexpr (kKind == CudaActivation::kGeluErf) {
    const float share = 0.5F * (1 + erff(x * kRootOfHalf));
    return {x * share, share + x * kDensityAtZero * expf(-0.5F * x * x)};
  } else {
    const float share = 1 / (1 + finite_exp(-x));
    return {x * share, share * (1 + x * (1 - share))};
  }
}

/// One pack per thread.
template <class Number, int kCount, CudaActivation kKind>
struct Forward {
  static constexpr int kThreads = 256;
  static constexpr int64_t kOfBlock = kThreads * kCount;
  using Args = CudaElementwise;

  template <class Block>
  ACCEL_ON_DEVICE static void run(Block& block, const Args& in) {
    block.run([&](int thread) {
      const int64_t i = block.index() * kOfBlock + thread * kCount;
      if (i >= in.count) return;
      const auto x = load<kCount>(static_cast<const Number*>(in.x) + i);
      Pack<Number, kCount> up, y;
      if (kKind == CudaActivation::kSwiGlu) {
        up = load<kCount>(static_cast<const Number*>(in.up) + i);
      }
      for (int j = 0; j < kCount; ++j) {
        float out = activation_at<kKind>(to_float(x.at[j])).value;
        if (kKind == CudaActivation::kSwiGlu) out *= to_float(up.at[j]);
        round_to(out, y.at + j);
      }
      store(y, static_cast<Number*>(in.y) + i);
    });
  }
};

template <class Number, int kCount, CudaActivation kKind>
struct Backward {
  static constexpr int kThreads = 256;
  static constexpr int64_t kOfBlock = kThreads * kCount;
  using Args = CudaElementwise;

  template <class Block>
  ACCEL_ON_DEVICE static void run(Block& block, const Args& in) {
    block.run([&](int thread) {
      const int64_t i = block.index() * kOfBlock + thread * kCount;
      if (i >= in.count) return;
      const auto x = load<kCount>(static_cast<const Number*>(in.x) + i);
      const auto dy = load<kCount>(static_cast<const Number*>(in.dy) + i);
      Pack<Number, kCount> up, dx, dup;
      if (kKind == CudaActivation::kSwiGlu) {
        up = load<kCount>(static_cast<const Number*>(in.up) + i);
      }
      for (int j = 0; j < kCount; ++j) {
        const Slope at = activation_at<kKind>(to_float(x.at[j]));
        float slope = to_float(dy.at[j]);
        if (kKind == CudaActivation::kSwiGlu) {
          round_to(slope * at.value, dup.at + j);
          slope *= to_float(up.at[j]);
        }
        round_to(slope * at.slope, dx.at + j);
      }
      store(dx, static_cast<Number*>(in.dx) + i);
      if (kKind == CudaActivation::kSwiGlu) store(dup, static_cast<Number*>(in.dup) + i);
    });
  }
};

template <template <class, int, CudaActivation> class Kernel, class Number, CudaActivation kKind>
int32_t run(const CudaElementwise& in, void* stream) {
  using Packs = Kernel<Number, kPackOf<Number>, kKind>;
  using Single = Kernel<Number, 1, kKind>;
  const bool packs =
      in.count % kPackOf<Number> == 0 && are_aligned(in.x, in.up, in.y, in.dy, in.dx, in.dup);
  return packs ? launch<Packs>(in, blocks_of(in.count, Packs::kOfBlock), stream)
               : launch<Single>(in, blocks_of(in.count, Single::kOfBlock), stream);
}

template <template <class, int, CudaActivation> class Kernel, class Number>
int32_t run(const CudaElementwise& in, void* stream) {
  switch (in.activation) {
    case CudaActivation::kGeluTanh:
      return run<Kernel, Number, CudaActivation::kGeluTanh>(in, stream);
    case CudaActivation::kGeluErf:
      return run<Kernel, Number, CudaActivation::kGeluErf>(in, stream);
    default:
      return run<Kernel, Number, CudaActivation::kSwiGlu>(in, stream);
  }
}

template <template <class, int, CudaActivation> class Kernel>
int32_t run(const CudaElementwise& in, void* stream) {
  return in.type == CudaType::kFloat ? run<Kernel, float>(in, stream)
                                     : run<Kernel, Bf16>(in, stream);
}

}  // namespace

int32_t elementwise(const CudaElementwise* in, void* stream) {
  return run<Forward>(*in, stream);
}

int32_t elementwise_backward(const CudaElementwise* in, void* stream) {
  return run<Backward>(*in, stream);
}

}  // namespace accel::cuda
