#include "kernels/cuda/block.h"
#include "kernels/cuda/kernels.h"

namespace accel::cuda {
namespace {

constexpr int kNormThreads = 128;
constexpr int64_t kMostParts = 1024;        // parts of rows with separate column sums
constexpr int64_t kLeastRows = 8;           // of a part
constexpr int64_t kMostShared = 48 * 1024;  // bytes per block that need no consent of the driver
constexpr int64_t kGroup = 32;              // column sums added by one thread

/// Parts of consecutive rows, and column sums of one part: of the gradients of weight and bias.
struct Parts {
  int64_t rows_each, count, sums;

  explicit Parts(const CudaNorm& in) {
    rows_each = blocks_of(in.rows, kMostParts);
    if (rows_each < kLeastRows) rows_each = kLeastRows;
    count = blocks_of(in.rows, rows_each);
    sums = in.weight_grad || in.bias_grad ? in.width * (in.is_rms ? 1 : 2) : 0;
  }
};

template <class Number, int kCount>
ACCEL_ON_DEVICE Pack<Number, kCount> load_or(const Number* from, int64_t i, float other) {
  if (from) return load<kCount>(from + i);
  Pack<Number, kCount> pack;
  for (Number& x : pack.at) round_to(other, &x);
  return pack;
}

/// One block per row, which the cache keeps for the second and third pass.
template <class Number, class Out, int kCount, bool kIsRms>
struct NormRows {
  static constexpr int kThreads = kNormThreads;
  using Args = CudaNorm;

  /// Elements of the row from i on; x + branch is rounded to the type and kept.
  ACCEL_ON_DEVICE static Pack<Number, kCount> first_load(const Args& in, int64_t row, int64_t i) {
    const int64_t from = row * in.width + i;
    auto pack = load<kCount>(static_cast<const Number*>(in.x) + from);
    if (!in.branch) return pack;
    const auto branch = load<kCount>(static_cast<const Out*>(in.branch) + from);
    for (int j = 0; j < kCount; ++j) {
      round_to(to_float(pack.at[j]) + to_float(branch.at[j]), pack.at + j);
    }
    store(pack, static_cast<Number*>(in.sum) + from);
    return pack;
  }
  /// After first_load(), by the same thread.
  ACCEL_ON_DEVICE static Pack<Number, kCount> next_load(const Args& in, int64_t row, int64_t i) {
    const auto* x = static_cast<const Number*>(in.branch ? in.sum : in.x);
    return load<kCount>(x + row * in.width + i);
  }

  /// The sum of (x - shift)^power.
  template <int kPower, bool kIsFirst, class Block>
  ACCEL_ON_DEVICE static float moment(Block& block, const Args& in, float shift) {
    const int64_t row = block.index();
    typename Block::template Each<float> sums;
    block.run([&](int thread) {
      sums[thread] = 0;
      for (int64_t i = thread * kCount; i < in.width; i += kThreads * kCount) {
        const auto pack = kIsFirst ? first_load(in, row, i) : next_load(in, row, i);
        for (const Number& at : pack.at) {
          const float from = to_float(at) - shift;
          sums[thread] += kPower == 1 ? from : from * from;
        }
      }
    });
    return block.reduce(sums, [](float a, float b) { return a + b; });
  }

  template <class Block>
  ACCEL_ON_DEVICE static void run(Block& block, const Args& in) {
    const int64_t row = block.index();
    const auto width = static_cast<float>(in.width);
    const float mean = kIsRms ? 0 : moment<1, true>(block, in, 0) / width;
    const float rstd = 1 / sqrtf(moment<2, kIsRms>(block, in, mean) / width + in.eps);
    block.run([&](int thread) {
      if (thread == 0) in.rstd[row] = rstd;
      if (!kIsRms && thread == 0) in.mean[row] = mean;
      for (int64_t i = thread * kCount; i < in.width; i += kThreads * kCount) {
        const auto pack = next_load(in, row, i);
        const auto weight = load_or<Number, kCount>(static_cast<const Number*>(in.weight), i, 1);
        const auto bias = load_or<Number, kCount>(static_cast<const Number*>(in.bias), i, 0);
        Pack<Out, kCount> out;
        for (int j = 0; j < kCount; ++j) {
          const float normal = (to_float(pack.at[j]) - mean) * rstd;
          round_to(normal * to_float(weight.at[j]) + to_float(bias.at[j]), out.at + j);
        }
        store(out, static_cast<Out*>(in.y) + row * in.width + i);
      }
    });
  }
};

struct NormBackwardArgs {
  CudaNorm norm;
  int64_t rows_each, sums;
  bool shares;  ///< column sums are in shared memory until the part is done
};

/// The sums of dy weight and of dy weight xhat over a row.
struct RowSums {
  float plain, normal;
};

/// One block per part of rows. Each thread has the same columns in each row and keeps their sums,
/// [2][kCount][width / kCount], where consecutive threads write consecutive places.
template <class Number, class Out, int kCount, bool kIsRms>
struct NormRowsBackward {
  static constexpr int kThreads = kNormThreads;
  using Args = NormBackwardArgs;

  /// A thread's view of elements i to i + kCount of a row.
  struct Elements {
    float normal[kCount], slope[kCount], weighted[kCount];

    ACCEL_ON_DEVICE Elements(const CudaNorm& in, int64_t row, int64_t i) {
      const int64_t from = row * in.width + i;
      const auto x = load<kCount>(static_cast<const Number*>(in.x) + from);
      const auto dy = load<kCount>(static_cast<const Out*>(in.dy) + from);
      const auto weight = load_or<Number, kCount>(static_cast<const Number*>(in.weight), i, 1);
      const float mean = kIsRms ? 0 : in.mean[row], rstd = in.rstd[row];
      for (int j = 0; j < kCount; ++j) {
        normal[j] = (to_float(x.at[j]) - mean) * rstd;
        slope[j] = to_float(dy.at[j]);
        weighted[j] = slope[j] * to_float(weight.at[j]);
      }
    }
  };

  template <class Block>
  ACCEL_ON_DEVICE static void add_row(Block& block, const Args& args, int64_t row, float* sums) {
    const CudaNorm& in = args.norm;
    const int64_t packs = in.width / kCount;
    typename Block::template Each<RowSums> each;
    block.run([&](int thread) {
      each[thread] = {0, 0};
      for (int64_t pack = thread; pack < packs; pack += kThreads) {
        const Elements at(in, row, pack * kCount);
        for (int j = 0; j < kCount; ++j) {
          each[thread].plain += at.weighted[j];
          each[thread].normal += at.weighted[j] * at.normal[j];
          if (!sums) continue;
          sums[j * packs + pack] += at.slope[j] * at.normal[j];
          if (!kIsRms) sums[in.width + j * packs + pack] += at.slope[j];
        }
      }
    });
    const RowSums all = block.reduce(each, [](const RowSums& a, const RowSums& b) {
      return RowSums{a.plain + b.plain, a.normal + b.normal};
    });
    const auto width = static_cast<float>(in.width);
    const float plain = kIsRms ? 0 : all.plain / width, normal = all.normal / width;
    const float rstd = in.rstd[row];
    block.run([&](int thread) {
      for (int64_t pack = thread; pack < packs; pack += kThreads) {
        const Elements at(in, row, pack * kCount);
        const int64_t place = row * in.width + pack * kCount;
        Pack<Number, kCount> of_sum = {}, out;
        if (in.dsum) of_sum = load<kCount>(static_cast<const Number*>(in.dsum) + place);
        Pack<Out, kCount> of_branch;
        for (int j = 0; j < kCount; ++j) {
          const float dx = rstd * (at.weighted[j] - plain - at.normal[j] * normal);
          round_to(to_float(of_sum.at[j]) + dx, out.at + j);
          round_to(to_float(out.at[j]), of_branch.at + j);
        }
        store(out, static_cast<Number*>(in.dx) + place);
        if (in.dbranch) store(of_branch, static_cast<Out*>(in.dbranch) + place);
      }
    });
  }

  template <class Block, class Visit>
  ACCEL_ON_DEVICE static void each_sum(Block& block, const Args& args, const Visit& visit) {
    const int64_t packs = args.norm.width / kCount;
    block.run([&](int thread) {
      for (int64_t at = 0; at < args.sums; at += packs) {
        for (int64_t pack = thread; pack < packs; pack += kThreads) visit(at + pack);
      }
    });
  }

  template <class Block>
  ACCEL_ON_DEVICE static void run(Block& block, const Args& args) {
    float* part = args.sums > 0 ? args.norm.workspace + block.index() * args.sums : nullptr;
    float* sums = args.shares ? block.shared() : part;
    each_sum(block, args, [&](int64_t i) { sums[i] = 0; });
    const int64_t first = block.index() * args.rows_each, after = first + args.rows_each;
    for (int64_t row = first; row < after && row < args.norm.rows; ++row) {
      add_row(block, args, row, sums);
    }
    if (args.shares) each_sum(block, args, [&](int64_t i) { part[i] = sums[i]; });
  }
};

struct AddGroupsArgs {
  const float* from;  ///< [rows, sums]
  float* to;          ///< [rows / kGroup, sums]; null: the gradients
  void *weight_grad, *bias_grad;
  int64_t rows, sums, width;
};

/// One thread adds a sum over kGroup rows. kCount: of the layout of NormRowsBackward's sums.
template <class Number, int kCount>
struct AddGroups {
  static constexpr int kThreads = 128;
  using Args = AddGroupsArgs;

  template <class Block>
  ACCEL_ON_DEVICE static void run(Block& block, const Args& in) {
    const int64_t blocks = (in.sums + kThreads - 1) / kThreads;
    const int64_t group = block.index() / blocks, first = block.index() % blocks * kThreads;
    block.run([&](int thread) {
      const int64_t place = first + thread;
      if (place >= in.sums) return;
      float sum = 0;
      for (int64_t row = group * kGroup; row < (group + 1) * kGroup && row < in.rows; ++row) {
        sum += in.from[row * in.sums + place];
      }
      if (in.to) {
        in.to[group * in.sums + place] = sum;
        return;
      }
      const int64_t in_width = place % in.width, packs = in.width / kCount;
      const int64_t column = in_width % packs * kCount + in_width / packs;
      void* gradient = place < in.width ? in.weight_grad : in.bias_grad;
      if (gradient) round_to(sum, static_cast<Number*>(gradient) + column);
    });
  }
};

/// The sums of the parts, in rounds of kGroup.
template <class Number, int kCount>
int32_t add_parts(const CudaNorm& in, const Parts& parts, void* stream) {
  const int64_t blocks = blocks_of(parts.sums, AddGroups<Number, kCount>::kThreads);
  float *from = in.workspace, *to = in.workspace + parts.count * parts.sums;
  int64_t rows = parts.count;
  do {
    const int64_t groups = blocks_of(rows, kGroup);
    const AddGroupsArgs args = {
        from, groups > 1 ? to : nullptr, in.weight_grad, in.bias_grad, rows, parts.sums, in.width};
    const int32_t code = launch<AddGroups<Number, kCount>>(args, blocks * groups, stream);
    if (code != 0 || groups == 1) return code;
    from = to;
    to += groups * parts.sums;
    rows = groups;
  } while (true);
}

template <class Number, class Out, int kCount, bool kIsRms>
int32_t run_backward(const CudaNorm& in, void* stream) {
  const Parts parts(in);
  const int64_t bytes = parts.sums * static_cast<int64_t>(sizeof(float));
  const bool shares = parts.sums > 0 && bytes <= kMostShared;
  const NormBackwardArgs args = {in, parts.rows_each, parts.sums, shares};
  const int32_t code = launch<NormRowsBackward<Number, Out, kCount, kIsRms>>(
      args, parts.count, stream, shares ? bytes : 0);
  return code != 0 || parts.sums == 0 ? code : add_parts<Number, kCount>(in, parts, stream);
}

/// Calls run.operator()<Number, Out, kCount, kIsRms>().
template <class Number, class Out, class Run>
int32_t with_pack(const CudaNorm& in, const Run& run) {
  constexpr int kCount = kPackOf<Number>;
  const bool packs =
      in.width % kCount == 0 && are_aligned(in.x, in.weight, in.bias, in.branch, in.sum, in.y,
                                            in.dy, in.dsum, in.dx, in.dbranch);
  if (packs && in.is_rms) return run.template operator()<Number, Out, kCount, true>();
  if (packs) return run.template operator()<Number, Out, kCount, false>();
  if (in.is_rms) return run.template operator()<Number, Out, 1, true>();
  return run.template operator()<Number, Out, 1, false>();
}

template <class Run>
int32_t with_type(const CudaNorm& in, const Run& run) {
  const bool is_narrow = in.y_type == CudaType::kBFloat16;
  if (in.type == CudaType::kBFloat16) return with_pack<Bf16, Bf16>(in, run);
  return is_narrow ? with_pack<float, Bf16>(in, run) : with_pack<float, float>(in, run);
}

}  // namespace

int32_t norm(const CudaNorm* in, void* stream) {
  return with_type(*in, [&]<class Number, class Out, int kCount, bool kIsRms>() {
    return launch<NormRows<Number, Out, kCount, kIsRms>>(*in, in->rows, stream);
  });
}

int32_t norm_backward(const CudaNorm* in, void* stream) {
  return with_type(*in, [&]<class Number, class Out, int kCount, bool kIsRms>() {
    return run_backward<Number, Out, kCount, kIsRms>(*in, stream);
  });
}

int64_t norm_workspace(const CudaNorm* in) {
  const Parts parts(*in);
  int64_t rows = parts.count;
  for (int64_t groups = parts.count; groups > 1;) {
    groups = blocks_of(groups, kGroup);
    if (groups > 1) rows += groups;
  }
  return rows * parts.sums;
}

}  // namespace accel::cuda
