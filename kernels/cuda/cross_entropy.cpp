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

/// Of the first `count` numbers.
template <class Number, int kCount>
ACCEL_ON_DEVICE ExpSum exps_of(const Pack<Number, kCount>& pack, int64_t count) {
  float numbers[kCount];
  ExpSum all = no_exps();
  for (int j = 0; j < kCount; ++j) {
    numbers[j] = j < count ? to_float(pack.at[j]) : -kInfinity;
    all.largest = numbers[j] > all.largest ? numbers[j] : all.largest;
  }
  for (const float x : numbers) {
    // -inf - -inf is no number, though e^-inf is 0.
    all.sum += x == -kInfinity ? 0.0F : expf(x - all.largest);
  }
  return all;
}

/// A row of logits.
template <class Number>
struct Row {
  const Number* x;
  int64_t target;
  bool is_counted, is_class;

  ACCEL_ON_DEVICE Row(const CudaCrossEntropy& in, int64_t row)
      : x(static_cast<const Number*>(in.logits) + row * in.stride),
        target(in.targets[row]),
        is_counted(target != in.ignored),
        is_class(target >= 0 && target < in.classes) {}
};

/// slope (e^(x - log_sum) - [is target]), in whole rows of `stride` elements.
template <int kThreads, int kCount, class Block, class Number>
ACCEL_ON_DEVICE void write_gradient(Block& block, const CudaCrossEntropy& in,
                                    const Row<Number>& row, float log_sum, float slope) {
  Number* gradient = static_cast<Number*>(in.gradient) + block.index() * in.stride;
  block.run([&](int thread) {
    for (int64_t i = thread * kCount; i < in.stride; i += kThreads * kCount) {
      Pack<Number, kCount> out = {};
      const Pack<Number, kCount> pack = load<kCount>(row.x + i);
      for (int j = 0; j < kCount; ++j) {
        if (!row.is_counted || i + j >= in.classes) continue;
        const float share = expf(to_float(pack.at[j]) - log_sum);
        round_to(slope * (i + j == row.target ? share - 1 : share), out.at + j);
      }
      store(out, gradient + i);
    }
  });
}

/// One block per row, which the cache keeps for the gradient.
template <class Number, int kCount>
struct RowLosses {
  static constexpr int kThreads = 512;
  using Args = CudaCrossEntropy;

  template <class Block>
  ACCEL_ON_DEVICE static void run(Block& block, const Args& in) {
    const Row<Number> row(in, block.index());
    // Before the reduction, after which the gradient may take its place.
    const float at_target = row.is_class ? to_float(row.x[row.target]) : 0;
    typename Block::template Each<ExpSum> exps;
    block.run([&](int thread) {
      exps[thread] = no_exps();
      if (!row.is_counted) return;
      for (int64_t i = thread * kCount; i < in.classes; i += kThreads * kCount) {
        const ExpSum more = exps_of(load<kCount>(row.x + i), in.classes - i);
        exps[thread] = joined(exps[thread], more);
      }
    });
    const ExpSum all =
        block.reduce(exps, [](const ExpSum& a, const ExpSum& b) { return joined(a, b); });
    const float log_sum = row.is_class ? all.largest + logf(all.sum) : NAN;
    block.run([&](int thread) {
      if (thread > 0) return;
      in.log_sums[block.index()] = row.is_counted ? log_sum : 0;
      in.losses[block.index()] = row.is_counted ? log_sum - at_target : 0;
    });
    if (!in.row_slope) return;
    write_gradient<kThreads, kCount>(block, in, row, log_sum, in.row_slope[0]);
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
    const Row<Number> row(in, block.index());
    write_gradient<kThreads, kCount>(block, in, row, in.log_sums[block.index()],
                                     in.slope[0] * in.mean[1]);
  }
};

template <template <class, int> class Kernel, class Number>
int32_t run_rows(const CudaCrossEntropy& in, void* stream) {
  constexpr int kCount = kPackOf<Number>;
  const bool packs = in.stride % kCount == 0 && are_aligned(in.logits, in.gradient);
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
  return code != 0 || !in->mean ? code : launch<MeanOfRows>(*in, 1, stream);
}

int32_t cross_entropy_backward(const CudaCrossEntropy* in, void* stream) {
  return run_rows<RowGradients>(*in, stream);
}

}  // namespace accel::cuda
