#include "parallel/shard_unit.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/fp8/fp8_matrix.h"
#include "kernels/memory/deferred_init.h"
#include "kernels/norm.h"
#include "parallel/row_share.h"

namespace accel {
namespace {

/// Frees the memory of a tensor that owns its storage alone. Tensors that autograd saved keep
/// sharing the storage, and see the values again after own_memory().
void free_memory(const at::Tensor& tensor) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr(nullptr, tensor.device()));
  storage->set_nbytes(0);
}

void own_memory(const at::Tensor& tensor) {
  at::Tensor fresh = at::empty(tensor.sizes(), tensor.options().requires_grad(false));
  c10::StorageImpl* from = fresh.storage().unsafeGetStorageImpl();
  c10::StorageImpl* to = tensor.storage().unsafeGetStorageImpl();
  const size_t bytes = from->nbytes();
  to->set_data_ptr_noswap(from->set_data_ptr(c10::DataPtr(nullptr, tensor.device())));
  to->set_nbytes(bytes);
}

/// So that rows of any type begin at a multiple of their size.
constexpr int64_t kAlignment = 16;

constexpr int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// `count` elements at `offset`, in bytes, of each row of a buffer of bytes.
at::Tensor elements_at(const at::Tensor& bytes, int64_t offset, int64_t count,
                       at::ScalarType dtype) {
  const auto size = static_cast<int64_t>(c10::elementSize(dtype));
  return bytes.narrow(-1, offset, count * size).view(dtype);
}

/// Rows of an item in the buffer of all ranks: [ranks, elements of a rank]. Ranks with equal shares
/// are copied at once, however many there are.
struct DividedRows {
  DividedRows(int64_t rows, int64_t ranks)
      : each(rows_per_rank(rows, ranks)),
        full(each > 0 ? rows / each : 0),
        rest(rows - full * each) {}

  int64_t each;  ///< rows of each of the first ranks
  int64_t full;  ///< how many ranks have that share
  int64_t rest;  ///< rows of the next rank; the others have none
};

}  // namespace

ShardUnit::ShardUnit(const std::vector<Parameter>& parameters, const CastWeights& cast,
                     ShardGroups groups, const ReduceOptions& reduce, ShardHome home)
    : groups_(groups), reduce_(reduce), home_(std::move(home)) {
  const c10::NoGradGuard no_grad;
  for (const Parameter& parameter : parameters) {
    const bool is_float = parameter.local.scalar_type() == at::kFloat;
    add(parameter, is_float && cast.autocast.contains(parameter.name));
    const auto fp8 = cast.fp8.find(parameter.name);
    if (items_.back().is_cast && fp8 != cast.fp8.end()) items_.back().fp8 = fp8->second;
  }
  if (items_.empty()) return;
  device_ = parameters.front().local.options().requires_grad(false).dtype(at::kByte);
  make_buffers();
  divide(parameters);
  lay_out();
}

int64_t ShardUnit::padded(const Item& item) const {
  return rows_per_rank(item.rows, ranks()) * item.row_size;
}

at::ScalarType ShardUnit::whole_dtype(const Item& item) const {
  return item.is_cast ? compute_dtype_.value_or(item.dtype) : item.dtype;
}

at::ScalarType ShardUnit::sent_dtype(const Item& item) const {
  return sends_fp8(item) ? at::kFloat8_e4m3fn : whole_dtype(item);
}

void ShardUnit::add(const Parameter& parameter, bool is_cast) {
  const at::Tensor& whole = parameter.local;
  const int64_t rows = whole.size(0);
  items_.push_back({.whole = whole,
                    .values = {},
                    .dtype = whole.scalar_type(),
                    .is_cast = is_cast,
                    .is_trained = whole.requires_grad(),
                    .rows = rows,
                    .row_size = rows > 0 ? whole.numel() / rows : 0,
                    .gradient = {}});
  has_autocast_weights_ = has_autocast_weights_ || is_cast;
  if (!whole.requires_grad()) return;
  trained_.push_back(whole);
  trained_items_.push_back(items_.size() - 1);
  add_reduction(items_.size() - 1);
}

void ShardUnit::add_reduction(size_t index) {
  const Item& item = items_[index];
  const at::ScalarType dtype = reduce_.dtype.value_or(item.dtype);
  auto found = std::find_if(reductions_.begin(), reductions_.end(),
                            [&](const Reduction& reduction) { return reduction.dtype == dtype; });
  if (found == reductions_.end()) {
    found = reductions_.insert(found, Reduction{.dtype = dtype});
  }
  found->items.push_back(index);
  found->offsets.push_back(found->elements);
  found->elements += padded(item);
}

int64_t ShardUnit::place(int64_t Item::*offset, bool gathered, int64_t& trained) {
  int64_t bytes = 0;
  for (const bool is_trained : {true, false}) {
    for (Item& item : items_) {
      if (item.is_trained != is_trained) continue;
      item.*offset = bytes;
      const at::ScalarType dtype = gathered ? sent_dtype(item) : item.dtype;
      bytes += aligned(padded(item) * static_cast<int64_t>(c10::elementSize(dtype)));
    }
    if (!is_trained) break;
    // Swapping writes the trained ones alone.
    if (home_.swapper) bytes = (bytes + kSlabBlock - 1) / kSlabBlock * kSlabBlock;
    trained = bytes;
  }
  return bytes;
}

void ShardUnit::make_buffers() {
  int64_t trained = 0;
  const int64_t bytes = place(&Item::offset, false, trained);
  if (home_.swapper) {
    rows_ = StateBuffer(home_.swapper, bytes, trained);
    if (trained > 0) gradients_ = StateBuffer(home_.swapper, trained, trained);
    return;
  }
  // Copies between pinned memory and a GPU do not block.
  const bool pinned = home_.on_host && device_.device().is_cuda();
  const at::Device where = home_.on_host ? at::Device(at::kCPU) : device_.device();
  rows_ = StateBuffer(at::zeros({bytes}, device_.device(where).pinned_memory(pinned)));
}

void ShardUnit::divide(const std::vector<Parameter>& parameters) {
  const SwapScope scope = rows_.scope(SwapAccess::kOverwrite);
  if (rows_.slab()) rows_.bytes().zero_();
  for (size_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    const RowShare own = row_share(item.rows, ranks(), groups_.shard->rank());
    std::vector<int64_t> shape = item.whole.sizes().vec();
    shape.front() = own.count;
    const at::Tensor rows =
        elements_at(rows_.bytes(), item.offset, own.count * item.row_size, item.dtype)
            .view(shape)
            .detach();
    copy_rows(item.whole, own.first, rows);
    rows.set_requires_grad(item.whole.requires_grad());
    shards_.push_back({parameters[i].name, rows, parameters[i].shape(), parameters[i].placements});
    shards_.back().placements.push_back({groups_.axis, 0});
    replace_whole(item, item.dtype);  // before the next one gets memory
  }
}

void ShardUnit::replace_whole(Item& item, at::ScalarType dtype) {
  // Separate storage that can be freed: weights may be mapped from a file.
  item.whole.set_data(
      at::empty(item.whole.sizes(), item.whole.options().requires_grad(false).dtype(dtype)));
  item.values = item.whole.variable_data();
  free_memory(item.values);
}

void ShardUnit::lay_out() {
  int64_t trained = 0;
  sent_bytes_ = place(&Item::sent_offset, true, trained);
  for (Item& item : items_) {
    const at::ScalarType dtype = whole_dtype(item);
    if (item.values.scalar_type() != dtype) replace_whole(item, dtype);
    if (item.fp8) item.fp8->inverse_scale.reset();
  }
}

void ShardUnit::set_compute_dtype(std::optional<at::ScalarType> dtype) {
  if (!changes_compute_dtype(dtype)) return;
  const c10::NoGradGuard no_grad;
  reshard();
  compute_dtype_ = dtype;
  lay_out();
}

at::Tensor ShardUnit::sent_rows() {
  if (!has_autocast_weights_ || !compute_dtype_) {
    return rows_.bytes().to(device_.device(), /*non_blocking=*/!rows_.slab());
  }
  at::Tensor sent = at::empty({sent_bytes_}, device_);
  for (Item& item : items_) {
    const at::Tensor to = elements_at(sent, item.sent_offset, padded(item), sent_dtype(item));
    const at::Tensor rows = rows_of(item);
    if (!sends_fp8(item)) {
      to.copy_(rows);
      continue;
    }
    // The magnitude of the weight in autocast's type: rounding is monotonic.
    item.scale = fp8_scale(item.amax.to(*compute_dtype_), at::kFloat8_e4m3fn, false);
    const at::Tensor cast = rows.to(device_.device()).to(*compute_dtype_);
    to.copy_(cast_to_fp8(cast, item.scale, at::kFloat8_e4m3fn));
  }
  return sent;
}

at::Tensor ShardUnit::rows_of(const Item& item) const {
  return elements_at(rows_.bytes(), item.offset, padded(item), item.dtype);
}

int64_t ShardUnit::num_fp8_weights() const {
  return std::count_if(items_.begin(), items_.end(),
                       [](const Item& item) { return item.fp8 != nullptr; });
}

at::Tensor ShardUnit::fp8_amaxes() const {
  std::vector<at::Tensor> amaxes;
  for (const Item& item : items_) {
    // The padding is 0.
    if (item.fp8) amaxes.push_back(rows_of(item).abs().amax().to(device_.device()));
  }
  const at::Tensor all = at::stack(amaxes);
  // The maximum over ranks may leave NaN out.
  return at::where(all.isfinite(), all, std::numeric_limits<float>::infinity());
}

void ShardUnit::set_fp8_amaxes(const at::Tensor& amaxes) {
  int64_t next = 0;
  for (Item& item : items_) {
    if (item.fp8) item.amax = amaxes.select(0, next++);
  }
}

void ShardUnit::prefetch() const {
  if (unsharded_ || is_unsharding() || items_.empty()) return;
  rows_.prefetch(SwapAccess::kRead);
}

void ShardUnit::start_unshard() {
  if (unsharded_ || is_unsharding() || items_.empty()) return;
  const c10::NoGradGuard no_grad;
  rows_.swap_in(SwapAccess::kRead);  // until end_gather()
  sent_ = sent_rows();
  gathered_ = at::empty({ranks(), sent_bytes_}, device_);
  gather_ = groups_.shard->start_all_gather(gathered_, sent_, "parameters");
}

void ShardUnit::unshard() {
  if (unsharded_) return;
  start_unshard();
  if (is_unsharding()) {
    const c10::NoGradGuard no_grad;
    gather_->wait();
    copy_out();
    end_gather();
  }
  unsharded_ = true;
}

void ShardUnit::end_gather() {
  gather_.reset();
  sent_.reset();
  gathered_.reset();
  rows_.swap_out(SwapAccess::kRead);
}

void ShardUnit::copy_out() const {
  for (const Item& item : items_) {
    if (item.values.storage().nbytes() == 0) own_memory(item.values);
    if (item.whole.numel() == 0) continue;
    const DividedRows rows(item.rows, ranks());
    const int64_t share = rows.each * item.row_size, rest = rows.rest * item.row_size;
    const at::Tensor flat = item.values.view({-1});
    const at::ScalarType dtype = sent_dtype(item);
    if (sends_fp8(item)) item.fp8->inverse_scale = item.scale.reciprocal();
    flat.narrow(0, 0, rows.full * share)
        .view({rows.full, share})
        .copy_(elements_at(gathered_.narrow(0, 0, rows.full), item.sent_offset, share, dtype));
    if (rest == 0) continue;
    flat.narrow(0, rows.full * share, rest)
        .copy_(elements_at(gathered_.select(0, rows.full), item.sent_offset, rest, dtype));
  }
}

void ShardUnit::drop_unshard() {
  if (!is_unsharding()) return;
  gather_->wait();
  end_gather();
}

void ShardUnit::reshard() {
  drop_unshard();
  for (const Item& item : items_) {
    if (item.values.storage().nbytes() > 0) free_memory(item.values);
  }
  unsharded_ = false;
}

void ShardUnit::invalidate() {
  drop_unshard();
  unsharded_ = false;
}

void ShardUnit::on_gradient(size_t i) {
  Item& item = items_[trained_items_[i]];
  if (!item.is_cast) return;
  const c10::NoGradGuard no_grad;
  at::Tensor latest = std::exchange(item.whole.mutable_grad(), at::Tensor());
  item.gradient =
      item.gradient.defined() ? item.gradient.to(item.dtype).add_(latest) : std::move(latest);
}

at::Tensor ShardUnit::gradient_of(const Item& item) const {
  return item.is_cast ? item.gradient : item.whole.grad();
}

Gradients ShardUnit::take_gradients() {
  Gradients out;
  for (const size_t i : trained_items_) {
    Item& item = items_[i];
    at::Tensor& from = item.is_cast ? item.gradient : item.whole.mutable_grad();
    out.push_back(std::exchange(from, at::Tensor()));
    if (out.back().defined()) out.back() = out.back().to(item.dtype);
  }
  return out;
}

void ShardUnit::put_gradients(const Gradients& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    Item& item = items_[trained_items_[i]];
    (item.is_cast ? item.gradient : item.whole.mutable_grad()) = gradients[i];
  }
}

void ShardUnit::start_reduce() {
  const c10::NoGradGuard no_grad;
  if (has_gradients()) gradients_.prefetch(SwapAccess::kChange);
  for (Reduction& reduction : reductions_) {
    copy_in(reduction);
    if (reduce_.canonical) {
      const std::vector<int64_t> a_row_each(static_cast<size_t>(ranks()), 1);
      reduction.reduced = at::empty(reduction.sent.sizes(), reduction.sent.options());
      reduction.pending = groups_.shard->start_all_to_all(reduction.reduced, reduction.sent,
                                                          a_row_each, a_row_each, "gradients");
      continue;
    }
    reduction.reduced = at::empty({reduction.sent.size(1)}, reduction.sent.options());
    reduction.pending = groups_.shard->start_reduce_scatter(reduction.reduced, reduction.sent,
                                                            ReduceOp::kSum, "gradients");
  }
  reducing_ = true;
}

void ShardUnit::copy_rows_in(const Item& item, const at::Tensor& gradient, const at::Tensor& to) {
  if (!gradient.defined() || gradient.numel() == 0) {
    to.zero_();
    return;
  }
  const DividedRows rows(item.rows, to.size(0));
  // The buffer takes the shape of the rows, since a gradient need not be contiguous.
  const auto copy = [&](const at::Tensor& part, const at::Tensor& from) {
    part.view(from.sizes()).copy_(from);
  };
  copy(to.narrow(0, 0, rows.full),
       gradient.narrow(0, 0, rows.full * rows.each).unflatten(0, {rows.full, rows.each}));
  int64_t with_rows = rows.full;
  if (rows.rest > 0) {
    const at::Tensor last = to.select(0, with_rows++);
    const int64_t present = rows.rest * item.row_size;
    copy(last.narrow(0, 0, present), gradient.narrow(0, rows.full * rows.each, rows.rest));
    last.narrow(0, present, last.size(0) - present).zero_();
  }
  if (with_rows < to.size(0)) to.narrow(0, with_rows, to.size(0) - with_rows).zero_();
}

void ShardUnit::copy_in(Reduction& reduction) {
  const auto flags = static_cast<int64_t>(reduction.items.size());
  reduction.sent = at::empty({ranks(), reduction.elements + flags}, device_.dtype(reduction.dtype));
  for (size_t i = 0; i < reduction.items.size(); ++i) {
    Item& item = items_[reduction.items[i]];
    const at::Tensor gradient = gradient_of(item);
    reduction.sent.select(1, reduction.elements + static_cast<int64_t>(i))
        .fill_(gradient.defined() ? 1 : 0);
    copy_rows_in(item, gradient, reduction.sent.narrow(1, reduction.offsets[i], padded(item)));
    item.whole.mutable_grad().reset();
    item.gradient.reset();
  }
}

void ShardUnit::finish_reduce() {
  if (!reducing_) return;
  const c10::NoGradGuard no_grad;
  const SwapScope scope =
      gradients_.scope(has_gradients() ? SwapAccess::kChange : SwapAccess::kOverwrite);
  for (Reduction& reduction : reductions_) {
    reduction.pending->wait();
    reduction.pending.reset();
    reduction.sent.reset();
    if (groups_.replicate->world() > 1 && !reduce_.canonical) {
      groups_.replicate->all_reduce(reduction.reduced, ReduceOp::kSum, "gradients of replicas");
    }
    add_sums(reduction);
    reduction.reduced.reset();
  }
  if (gradients_.slab()) square_gradients();
  reducing_ = false;
}

at::Tensor ShardUnit::gradient_from(const Item& item, const at::Tensor& sum) const {
  if (!gradients_.slab()) return sum;
  return elements_at(gradients_.bytes(), item.offset, sum.numel(), item.dtype)
      .view(sum.sizes())
      .copy_(sum);
}

bool ShardUnit::has_gradients() const {
  return std::any_of(shards_.begin(), shards_.end(),
                     [](const Parameter& shard) { return shard.local.grad().defined(); });
}

void ShardUnit::square_gradients() {
  std::vector<at::Tensor> gradients;
  for (const Parameter& shard : shards_) {
    if (shard.local.grad().defined()) gradients.push_back(shard.local.grad());
  }
  squares_.assign(shards_.size(), at::Tensor());
  if (gradients.empty()) return;
  const std::vector<at::Tensor> squares = squared_norms(gradients).unbind();
  auto next = squares.begin();
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (shards_[i].local.grad().defined()) squares_[i] = *next++;
  }
}

void ShardUnit::add_sums(const Reduction& reduction) {
  const auto count = static_cast<int64_t>(reduction.items.size());
  // One row: the sum, or one of each rank, replicas outermost.
  at::Tensor all = reduction.reduced.view({-1, reduction.elements + count});
  if (reduce_.canonical && groups_.replicate->world() > 1) {
    all = groups_.replicate->all_gather(all, "gradients of replicas").view({-1, all.size(1)});
  }
  const at::Tensor flags = all.narrow(1, reduction.elements, count).to(at::kCPU, at::kFloat);
  for (size_t i = 0; i < reduction.items.size(); ++i) {
    const Item& item = items_[reduction.items[i]];
    const at::Tensor& shard = shards_[reduction.items[i]].local;
    const at::Tensor total = tree_sum(
        all.size(0),
        [&](int64_t rank) {
          // Not by data pointer, which fake tensors do not have.
          const bool present =
              flags.select(0, rank).select(0, static_cast<int64_t>(i)).item<float>() != 0;
          return present ? all.select(0, rank).narrow(0, reduction.offsets[i], shard.numel())
                         : at::Tensor();
        },
        [](at::Tensor& sum, const at::Tensor& more) { sum = sum_of_gradients(sum, more); });
    if (!total.defined()) continue;
    const at::Tensor sum = total.view(shard.sizes()).to(shard.device(), shard.scalar_type());
    at::Tensor& gradient = shard.mutable_grad();
    if (gradient.defined()) {
      gradient.add_(sum);
    } else {
      gradient = gradient_from(item, sum);
    }
  }
}

}  // namespace accel
