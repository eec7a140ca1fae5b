#include "parallel/shard_unit.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "kernels/memory/deferred_init.h"
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

}  // namespace

ShardUnit::ShardUnit(const std::vector<Parameter>& parameters, ShardGroups groups,
                     std::optional<at::ScalarType> reduce_dtype)
    : groups_(groups), reduce_dtype_(reduce_dtype) {
  const c10::NoGradGuard no_grad;
  shards_.resize(parameters.size());
  for (const Parameter& parameter : parameters) add(parameter);
  for (Part& part : parts_) divide(part, parameters);
}

ShardUnit::Part& ShardUnit::part_of(at::ScalarType dtype) {
  const auto found = std::find_if(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.items.front().whole.scalar_type() == dtype;
  });
  return found != parts_.end() ? *found : parts_.emplace_back();
}

void ShardUnit::add(const Parameter& parameter) {
  const at::Tensor& whole = parameter.local;
  Part& part = part_of(whole.scalar_type());
  const int64_t rows = whole.size(0), row_size = rows > 0 ? whole.numel() / rows : 0;
  const int64_t padded = rows_per_rank(rows, ranks()) * row_size;
  size_t shard = 0;
  for (const Part& other : parts_) shard += other.items.size();
  Item item{.whole = whole,
            .values = {},
            .shard = shard,
            .rows = rows,
            .row_size = row_size,
            .offset = part.elements};
  if (whole.requires_grad()) {
    item.grad_offset = part.grad_elements;
    part.grad_elements += padded;
    ++part.trained;
    trained_.push_back(whole);
  }
  part.elements += padded;
  part.items.push_back(std::move(item));
}

void ShardUnit::divide(Part& part, const std::vector<Parameter>& parameters) {
  const auto options = part.items.front().whole.options().requires_grad(false);
  part.rows = at::zeros({part.elements}, options);
  for (Item& item : part.items) {
    const Parameter& parameter = parameters[item.shard];
    const RowShare own = row_share(item.rows, ranks(), groups_.shard->rank());
    std::vector<int64_t> shape = item.whole.sizes().vec();
    shape.front() = own.count;
    const at::Tensor rows =
        part.rows.narrow(0, item.offset, own.count * item.row_size).view(shape).detach();
    copy_rows(item.whole, own.first, rows);
    rows.set_requires_grad(item.whole.requires_grad());
    shards_[item.shard] = {parameter.name, rows, item.whole.sizes().vec(), {{Axis::kShard, 0}}};
    // Separate storage that can be freed: weights may be mapped from a file.
    item.whole.set_data(at::empty(item.whole.sizes(), options));
    item.values = item.whole.variable_data();
    free_memory(item.values);
  }
}

void ShardUnit::start_unshard() {
  if (unsharded_ || unsharding_) return;
  const c10::NoGradGuard no_grad;
  for (Part& part : parts_) {
    part.gathered = at::empty({ranks(), part.elements}, part.rows.options());
    part.gather = groups_.shard->start_all_gather(part.gathered, part.rows, "parameters");
  }
  unsharding_ = true;
}

void ShardUnit::unshard() {
  if (unsharded_) return;
  start_unshard();
  const c10::NoGradGuard no_grad;
  for (Part& part : parts_) {
    part.gather->wait();
    part.gather.reset();
    copy_out(part);
    part.gathered.reset();
  }
  unsharding_ = false;
  unsharded_ = true;
}

void ShardUnit::copy_out(const Part& part) const {
  for (const Item& item : part.items) {
    if (item.values.storage().nbytes() == 0) own_memory(item.values);
    const at::Tensor flat = item.values.view({-1});
    for (int64_t rank = 0; rank < ranks(); ++rank) {
      const RowShare share = row_share(item.rows, ranks(), rank);
      flat.narrow(0, share.first * item.row_size, share.count * item.row_size)
          .copy_(part.gathered.select(0, rank).narrow(0, item.offset, share.count * item.row_size));
    }
  }
}

void ShardUnit::drop_unshard() {
  if (!unsharding_) return;
  for (Part& part : parts_) {
    part.gather->wait();
    part.gather.reset();
    part.gathered.reset();
  }
  unsharding_ = false;
}

void ShardUnit::reshard() {
  drop_unshard();
  for (const Part& part : parts_) {
    for (const Item& item : part.items) {
      if (item.values.storage().nbytes() > 0) free_memory(item.values);
    }
  }
  unsharded_ = false;
}

void ShardUnit::invalidate() {
  drop_unshard();
  unsharded_ = false;
}

void ShardUnit::start_reduce() {
  const c10::NoGradGuard no_grad;
  for (Part& part : parts_) {
    if (part.trained == 0) continue;
    copy_in(part);
    part.reduced = at::empty({part.sent.size(1)}, part.sent.options());
    part.reduction =
        groups_.shard->start_reduce_scatter(part.reduced, part.sent, ReduceOp::kSum, "gradients");
  }
  reducing_ = true;
}

void ShardUnit::copy_in(Part& part) const {
  const at::ScalarType dtype = reduce_dtype_.value_or(part.rows.scalar_type());
  part.sent =
      at::empty({ranks(), part.grad_elements + part.trained}, part.rows.options().dtype(dtype));
  int64_t flag = part.grad_elements;
  for (const Item& item : part.items) {
    if (item.grad_offset < 0) continue;
    const at::Tensor gradient = item.whole.grad();
    part.sent.select(1, flag++).fill_(gradient.defined() ? 1 : 0);
    const int64_t padded = rows_per_rank(item.rows, ranks()) * item.row_size;
    for (int64_t rank = 0; rank < ranks(); ++rank) {
      const RowShare share = row_share(item.rows, ranks(), rank);
      const int64_t present = gradient.defined() ? share.count * item.row_size : 0;
      const at::Tensor to = part.sent.select(0, rank).narrow(0, item.grad_offset, padded);
      if (present > 0) {
        to.narrow(0, 0, present).copy_(gradient.narrow(0, share.first, share.count).reshape({-1}));
      }
      if (present < padded) to.narrow(0, present, padded - present).zero_();
    }
    item.whole.mutable_grad().reset();
  }
}

void ShardUnit::finish_reduce() {
  if (!reducing_) return;
  const c10::NoGradGuard no_grad;
  for (Part& part : parts_) {
    if (part.trained == 0) continue;
    part.reduction->wait();
    part.reduction.reset();
    part.sent.reset();
    if (groups_.replicate->world() > 1) {
      groups_.replicate->all_reduce(part.reduced, ReduceOp::kSum, "gradients of replicas");
    }
    add_sums(part);
    part.reduced.reset();
  }
  reducing_ = false;
}

void ShardUnit::add_sums(const Part& part) {
  const at::Tensor flags =
      part.reduced.narrow(0, part.grad_elements, part.trained).to(at::kCPU, at::kFloat);
  int64_t next = 0;
  for (const Item& item : part.items) {
    if (item.grad_offset < 0) continue;
    // Not by data pointer, which fake tensors do not have.
    const bool present = flags.select(0, next++).item<float>() != 0;
    if (!present) continue;
    const at::Tensor& shard = shards_[item.shard].local;
    const at::Tensor sum = part.reduced.narrow(0, item.grad_offset, shard.numel())
                               .view(shard.sizes())
                               .to(shard.scalar_type());
    at::Tensor& gradient = shard.mutable_grad();
    if (gradient.defined()) {
      gradient.add_(sum);
    } else {
      gradient = sum;
    }
  }
}

}  // namespace accel
