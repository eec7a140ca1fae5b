#include "kernels/cuda/block.h"
#include "kernels/cuda/kernels.h"

namespace accel::cuda {
namespace {

/// The largest of some numbers x, and the sum of e^(x - largest).
struct ExpSum {
  float largest, sum;
};

ACCEL_ON_DEVICE ExpSum no_exps() {
  return {-kInfinity, 0};
}

ACCEL_ON_DEVICE float rescaled(const ExpSum& of, float largest) {
  return of.largest == largest ? of.sum : of.sum * expf(of.largest - largest);
}

ACCEL_ON_DEVICE ExpSum joined(const ExpSum& a, const ExpSum& b) {
  const float largest = a.largest > b.largest ? a.largest : b.largest;
  return {largest, rescaled(a, largest) + rescaled(b, largest)};
}

template <class Number, int kCount>
ACCEL_ON_DEVICE ExpSum exps_of(const Pack<Number, kCount>& pack) {
  ExpSum all = no_exps();
  for (const Number& x : pack.at) {
    all.largest = to_float(x) > all.largest ? to_float(x) : all.largest;
  }
  for (const Number& x : pack.at) {
    const float from_largest = to_float(x) - all.largest;
    // -inf - -inf is no number, though e^-inf is 0.
    const bool is_zero = to_float(x) == -kInfinity;
    all.sum += is_zero ? 0.0F : expf(from_largest);
  }
  return all;
}

/// One block per row.
template <class Number, int kCount>
struct RowLosses {
  static constexpr int kThreads = 512;
  using Args = CudaCrossEntropy;

  template <class Block>
  ACCEL_ON_DEVICE static void run(Block& block, const Args& in) {
    const int64_t row = block.index(), target = in.targets[row];
    const bool is_counted = target != in.ignored;
    const Number* x = static_cast<const Number*>(in.logits) + row * in.classes;
    typename Block::template Each<ExpSum> exps;
    block.run([&](int thread) {
      exps[thread] = no_exps();
      if (!is_counted) return;
      for (int64_t i = thread * kCount; i < in.classes; i += kThreads * kCount) {
        exps[thread] = joined(exps[thread], exps_of(load<kCount>(x + i)));
      }
    });
    const ExpSum all =
        block.reduce(exps, [](const ExpSum& a, const ExpSum& b) { return joined(a, b); });
    const bool is_class = target >= 0 && target < in.classes;
    block.run([&](int thread) {
      if (thread > 0) return;
      const float sum = is_class ? all.largest + logf(all.sum) : NAN;
      in.log_sums[row] = is_counted ? sum : 0;
      in.losses[row] = is_counted ? sum - (is_class ? to_float(x[target]) : 0) : 0;
    });
  }
};

struct Total {
  double losses, rows;
};

/// One block.
struct MeanOfRows {
  static constexpr int kThreads = 512;
  using Args = CudaCrossEntropy;

  template <class Block>
  ACCEL_ON_DEVICE static void run(Block& block, const Args& in) {
    typename Block::template Each<Total> totals;
    block.run([&](int thread) {
      totals[thread] = {0, 0};
      for (int64_t row = thread; row < in.rows; row += kThreads) {
        totals[thread].losses += static_cast<double>(in.losses[row]);
        totals[thread].rows += in.targets[row] != in.ignored ? 1 : 0;
      }
    });
    const Total all = block.reduce(totals, [](const Total& a, const Total& b) {
      return Total{a.losses + b.losses, a.rows + b.rows};
    });
    block.run([&](int thread) {
      if (thread > 0) return;
      in.mean[0] = all.rows > 0 ? static_cast<float>(all.losses / all.rows) : NAN;
      in.mean[1] = all.rows > 0 ? static_cast<float>(1 / all.rows) : 0;
    });
  }
};

/// One block per row.
template <class Number, int kCount>
struct RowGradients {
  static constexpr int kThreads = 512;
  using Args = CudaCrossEntropy;

  template <class Block>
  ACCEL_ON_DEVICE static void run(Block& block, const Args& in) {
    const int64_t row = block.index(), target = in.targets[row];
    const bool is_counted = target != in.ignored;
    const Number* x = static_cast<const Number*>(in.logits) + row * in.classes;
    Number* dx = static_cast<Number*>(in.gradient) + row * in.classes;
    const float log_sum = in.log_sums[row], scale = in.slope[0] * in.mean[1];
    block.run([&](int thread) {
      for (int64_t i = thread * kCount; i < in.classes; i += kThreads * kCount) {
        Pack<Number, kCount> out = {};
        const Pack<Number, kCount> pack = load<kCount>(x + i);
        for (int j = 0; j < kCount && is_counted; ++j) {
          const float share = expf(to_float(pack.at[j]) - log_sum);
          round_to(scale * (i + j == target ? share - 1 : share), out.at + j);
        }
        store(out, dx + i);
      }
    });
  }
};

template <template <class, int> class Kernel, class Number>
int32_t run_rows(const CudaCrossEntropy& in, void* stream) {
  constexpr int kCount = kPackOf<Number>;
  const bool packs = in.classes % kCount == 0 && are_aligned(in.logits, in.gradient);
  return packs ? launch<Kernel<Number, kCount>>(in, in.rows, stream)
               : launch<Kernel<Number, 1>>(in, in.rows, stream);
}

template <template <class, int> class Kernel>
int32_t run_rows(const CudaCrossEntropy& in, void* stream) {
  return in.type == CudaType::kFloat ? run_rows<Kernel, float>(in, stream)
                                     : run_rows<Kernel, Bf16>(in, stream);
}

}  // namespace

int32_t cross_entropy(const CudaCrossEntropy* in, void* stream) {
  const int32_t code = run_rows<RowLosses>(*in, stream);
  return code != 0 ? code : launch<MeanOfRows>(*in, 1, stream);
}

int32_t cross_entropy_backward(const CudaCrossEntropy* in, void* stream) {
  return run_rows<RowGradients>(*in, stream);
}

}  // namespace accel::cuda
