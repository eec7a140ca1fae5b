#include "kernels/attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/panel_product.h"
#include "kernels/cpu/parallel.h"

namespace accel {
namespace {

// Measured on Xeons with 2 MiB of second-level cache.
constexpr int64_t kScores = 1 << 17;    // of one block; the backward pass has as many gradients
constexpr int64_t kCausalQueries = 64;  // a limit, because keys after the block are skipped
constexpr int64_t kMostKeys = 512, kMostCausalKeys = 2048;  // beyond, ATen is as fast or faster

/// A [batch, heads, length, width] tensor in memory.
template <typename Number>
struct Heads {
  Number* data;
  int64_t batch_step, head_step, step;

  Number* at(int64_t batch, int64_t head, int64_t row) const {
    return data + batch * batch_step + head * head_step + row * step;
  }
};

/// Stride between rows; for a single row any valid leading dimension.
int64_t step_of(const at::Tensor& x) {
  return x.size(2) == 1 ? x.size(3) : x.stride(2);
}

Heads<const float> read_heads(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), x.stride(0), x.stride(1), step_of(x)};
}

Heads<float> written_heads(const at::Tensor& x) {
  return {x.mutable_data_ptr<float>(), x.stride(0), x.stride(1), step_of(x)};
}

/// Whether each head is a matrix in BLAS layout.
bool is_heads(const at::Tensor& x) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  return x.defined() && x.is_cpu() && x.dim() == 4 && x.scalar_type() == at::kFloat &&
         x.numel() > 0 && x.size(2) <= kMost && (x.stride(3) == 1 || x.size(3) == 1) &&
         step_of(x) >= x.size(3) && step_of(x) <= kMost;
}

/// Autograd passes an undefined tensor for a missing mask.
bool has_mask(const AttentionCall& call) {
  return call.mask && call.mask->defined();
}

bool takes_mask(const AttentionCall& call) {
  if (!has_mask(call)) return true;
  const at::Tensor& mask = *call.mask;
  if (!mask.is_cpu() || mask.scalar_type() != at::kFloat) return false;
  if (mask.dim() != 2 && mask.dim() != 4) return false;
  const int64_t full[] = {call.query.size(0), call.query.size(1), call.query.size(2),
                          call.key.size(2)};
  for (int64_t i = 1; i <= mask.dim(); ++i) {
    if (mask.size(-i) != 1 && mask.size(-i) != full[4 - i]) return false;
  }
  return true;
}

/// Rounds up to whole cache lines.
int64_t whole_lines(int64_t numbers) {
  constexpr int64_t kLine = 64 / sizeof(float);
  return (numbers + kLine - 1) / kLine * kLine;
}

/// One head of one sequence.
struct HeadPlace {
  int64_t batch, head;
};

/// A block of queries of a head, and the number of keys that any of them attends to.
struct QueryBlock {
  int64_t first, count, keys;
};

/// Memory layout of a call's tensors.
class AttentionOperands {
 public:
  explicit AttentionOperands(const AttentionCall& call)
      : batch(call.query.size(0)),
        heads(call.query.size(1)),
        queries(call.query.size(2)),
        keys(call.key.size(2)),
        width(call.query.size(3)),
        scale(static_cast<float>(call.scale.value_or(1 / std::sqrt(static_cast<double>(width))))),
        q(read_heads(call.query)),
        k(read_heads(call.key)),
        v(read_heads(call.value)),
        is_causal_(call.is_causal),
        block_(std::min({queries, kScores / keys, is_causal_ ? kCausalQueries : queries})) {
    if (!has_mask(call)) return;
    mask_.data = call.mask->const_data_ptr<float>();
    const int64_t dim = call.mask->dim();
    for (int64_t i = 1; i <= dim; ++i) {
      mask_.steps[4 - i] = call.mask->size(-i) == 1 ? 0 : call.mask->stride(-i);
    }
  }

  int64_t blocks() const { return (queries + block_ - 1) / block_; }
  QueryBlock block(int64_t index) const {
    const int64_t first = index * block_, count = std::min(block_, queries - first);
    return {first, count, seen(first + count)};
  }
  /// Number of keys that the queries before `end` attend to.
  int64_t seen(int64_t end) const { return is_causal_ ? std::min(end, keys) : keys; }
  /// Size of the scores of a block, in whole cache lines.
  int64_t scores() const { return whole_lines(block_ * keys); }

  /// Computes the products of a block of queries with the keys, into `to`.
  ScoreRows scores(const HeadPlace& at, const QueryBlock& of, float* to) const {
    small_product({q.at(at.batch, at.head, of.first), q.step},
                  {k.at(at.batch, at.head, 0), k.step, true}, {of.count, of.keys, width},
                  {to, of.keys});
    const float* mask = mask_.data;
    const int64_t* steps = mask_.steps;
    if (mask) mask += at.batch * steps[0] + at.head * steps[1] + of.first * steps[2];
    return {to,   of.count, of.keys, is_causal_ ? of.first + 1 : of.keys, is_causal_ ? 1 : 0, scale,
            mask, steps[2], steps[3]};
  }

  int64_t batch, heads, queries, keys, width;
  float scale;
  Heads<const float> q, k, v;

 private:
  bool is_causal_;
  int64_t block_;  // queries per block
  struct {
    const float* data = nullptr;
    int64_t steps[4] = {};
  } mask_;
};

/// [batch, heads, length, width] with ATen's memory layout [batch, length, heads, width].
at::Tensor empty_like_atens(const at::Tensor& x) {
  return at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options()).transpose(1, 2);
}

/// Whether query, key and value are the parts of one tensor [batch, length, 3, heads, width].
bool are_packed(const AttentionCall& call) {
  const at::Tensor &q = call.query, &k = call.key, &v = call.value;
  const int64_t width = q.size(3), part = q.size(1) * width, row = 3 * part;
  const auto lies_at = [&](const at::Tensor& x, int64_t offset) {
    return x.is_alias_of(q) && x.sizes() == q.sizes() && x.strides() == q.strides() &&
           x.storage_offset() == q.storage_offset() + offset;
  };
  return q.strides() == at::IntArrayRef({q.size(2) * row, width, row, 1}) && lies_at(k, part) &&
         lies_at(v, 2 * part);
}

/// For the gradients of a call, parts of one tensor where its tensors are.
AttentionGradients empty_gradients(const AttentionCall& call) {
  const at::Tensor& q = call.query;
  if (!are_packed(call)) {
    return {empty_like_atens(q), empty_like_atens(call.key), empty_like_atens(call.value)};
  }
  const at::Tensor all = at::empty({3 * q.numel()}, q.options());
  const auto part = [&](int64_t i) {
    return all.as_strided(q.sizes(), q.strides(), i * q.size(1) * q.size(3));
  };
  return {part(0), part(1), part(2)};
}

/// Runs task(i, scratch) for each i below `count` in all threads; `scratch` holds `numbers` values.
/// A single task gets an empty one beside it: outside of parallel regions BLAS uses all threads,
/// and its rounding depends on their number.
template <typename Task>
void for_each_task(int64_t count, int64_t numbers, const Task& task) {
  const at::Tensor scratch = at::empty({at::get_num_threads(), numbers}, at::kFloat);
  float* const data = scratch.mutable_data_ptr<float>();
  for_each_part(std::max<int64_t>(count, 2), 1, [&](int64_t begin, int64_t end) {
    float* const own = data + at::get_thread_num() * numbers;
    for (int64_t i = begin; i < std::min(end, count); ++i) task(i, own);
  });
}

/// Gradients of one head. Blocks are processed from the last to the first: in a causal call the
/// last block attends to all keys, so it stores the gradients that the others add to.
class HeadBackward {
 public:
  HeadBackward(const AttentionOperands& in, const Attended& attended,
               const AttentionGradients& gradients)
      : in_(in),
        y_(read_heads(attended.out)),
        dy_(read_heads(attended.slope)),
        dq_(written_heads(std::get<0>(gradients))),
        dk_(written_heads(std::get<1>(gradients))),
        dv_(written_heads(std::get<2>(gradients))),
        logs_(attended.logs.const_data_ptr<float>()),
        log_steps_(attended.logs.strides()) {}

  /// Scratch values per thread.
  int64_t scratch() const { return 2 * in_.scores() + whole_lines(in_.queries); }

  void head(const HeadPlace& at, float* scratch) const {
    for (int64_t i = in_.blocks() - 1; i >= 0; --i) {
      block(at, in_.block(i), i + 1 < in_.blocks(), scratch);
    }
    for (int64_t key = in_.seen(in_.queries); key < in_.keys; ++key) {
      std::fill_n(dk_.at(at.batch, at.head, key), in_.width, 0.0F);
      std::fill_n(dv_.at(at.batch, at.head, key), in_.width, 0.0F);
    }
  }

 private:
  void block(const HeadPlace& at, const QueryBlock& of, bool adds, float* scratch) const {
    float *const weights = scratch, *const slopes = weights + in_.scores(),
                 *const sums = slopes + in_.scores();
    const auto rows_of = [&](const auto& heads) { return heads.at(at.batch, at.head, of.first); };
    const auto all_of = [&](const auto& heads) { return heads.at(at.batch, at.head, 0); };
    const MatrixPart dy = {rows_of(dy_), dy_.step};
    const ProductShape of_scores = {of.count, of.keys, in_.width};
    const ProductShape of_queries = {of.count, in_.width, of.keys};
    const ProductShape of_keys = {of.keys, in_.width, of.count};

    const ScoreRows rows = in_.scores(at, of, weights);
    const float* logs = logs_ + at.batch * log_steps_[0] + at.head * log_steps_[1];
    attention_weights_again_cpu(rows, logs + of.first * log_steps_[2], log_steps_[2]);
    small_product({weights, of.keys, true}, dy, of_keys, {all_of(dv_), dv_.step, adds});
    small_product(dy, {all_of(in_.v), in_.v.step, true}, of_scores, {slopes, of.keys});
    dot_rows_cpu({dy.data, of.count, in_.width, dy.step},
                 {rows_of(y_), of.count, in_.width, y_.step}, sums);
    attention_slopes_cpu(rows, sums, slopes);
    small_product({slopes, of.keys}, {all_of(in_.k), in_.k.step}, of_queries,
                  {rows_of(dq_), dq_.step});
    small_product({slopes, of.keys, true}, {rows_of(in_.q), in_.q.step}, of_keys,
                  {all_of(dk_), dk_.step, adds});
  }

  const AttentionOperands& in_;
  Heads<const float> y_, dy_;
  Heads<float> dq_, dk_, dv_;
  const float* logs_;
  at::IntArrayRef log_steps_;
};

}  // namespace

bool attends(const AttentionCall& call) {
  const at::Tensor &q = call.query, &k = call.key, &v = call.value;
  if (call.dropout != 0 || !is_heads(q) || !is_heads(k) || !is_heads(v)) return false;
  const bool fits = q.size(0) == k.size(0) && q.size(1) == k.size(1) && q.size(3) == k.size(3) &&
                    k.sizes() == v.sizes();
  const int64_t most = call.is_causal ? kMostCausalKeys : kMostKeys;
  return fits && q.size(2) > 1 && k.size(2) <= most && takes_mask(call) && has_matrix_product();
}

bool attends(const AttentionCall& call, const Attended& attended) {
  const auto& [slope, out, logs] = attended;
  return attends(call) && slope.defined() && slope.scalar_type() == at::kFloat &&
         slope.sizes() == call.query.sizes() && is_heads(out) &&
         out.sizes() == call.query.sizes() && logs.scalar_type() == at::kFloat &&
         logs.sizes() == call.query.sizes().slice(0, 3);
}

std::tuple<at::Tensor, at::Tensor> attend(const AttentionCall& call) {
  const AttentionOperands in(call);
  at::Tensor out = empty_like_atens(call.query);
  at::Tensor logs = at::empty({in.batch, in.queries, in.heads}, at::kFloat);
  const Heads<float> y = written_heads(out);
  float* const log = logs.mutable_data_ptr<float>();
  const int64_t count = in.batch * in.heads * in.blocks();
  for_each_task(count, in.scores() + whole_lines(in.queries), [&](int64_t i, float* scratch) {
    const HeadPlace at = {i / in.blocks() / in.heads, i / in.blocks() % in.heads};
    const QueryBlock of = in.block(i % in.blocks());
    float *const weights = scratch, *const shares = weights + in.scores();
    float* const logs_here = log + (at.batch * in.queries + of.first) * in.heads + at.head;
    attention_weights_cpu(in.scores(at, of, weights), {logs_here, in.heads, shares});
    float* const to = y.at(at.batch, at.head, of.first);
    small_product({weights, of.keys}, {in.v.at(at.batch, at.head, 0), in.v.step},
                  {of.count, in.width, of.keys}, {to, y.step});
    scale_rows_cpu({to, of.count, in.width, y.step}, shares);
  });
  return {out, logs.transpose(1, 2)};
}

AttentionGradients attend_backward(const AttentionCall& call, const Attended& attended) {
  const AttentionOperands in(call);
  const at::Tensor slope = is_heads(attended.slope) ? attended.slope : attended.slope.contiguous();
  AttentionGradients gradients = empty_gradients(call);
  const HeadBackward backward(in, {slope, attended.out, attended.logs}, gradients);
  for_each_task(in.batch * in.heads, backward.scratch(), [&](int64_t i, float* scratch) {
    backward.head({i / in.heads, i % in.heads}, scratch);
  });
  return gradients;
}

}  // namespace accel
