#include "parallel/buckets.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

namespace accel {
namespace {

constexpr int64_t kFirstBucketBytes = 1 << 20;

/// Whether the elements of `gradient` are those of `flat`, in order.
bool is_in_place(const at::Tensor& gradient, const at::Tensor& flat) {
  return gradient.is_alias_of(flat) && gradient.storage_offset() == flat.storage_offset() &&
         gradient.is_contiguous();
}

}  // namespace

Bucket::Bucket(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {
  for (const Parameter& item : parameters_) {
    offsets_.push_back(elements_);
    elements_ += item.local.numel();
  }
}

int64_t Bucket::bytes() const {
  const auto flags = static_cast<int64_t>(parameters_.size());
  return (elements_ + flags) * static_cast<int64_t>(parameters_.front().local.element_size());
}

void Bucket::make_flat() {
  const at::Tensor& like = parameters_.front().local;
  flat_ = at::zeros({bytes() / static_cast<int64_t>(like.element_size())},
                    like.options().requires_grad(false));
}

void Bucket::set_flat(const at::Tensor& memory) {
  flat_ = memory.view(parameters_.front().local.scalar_type());
}

at::Tensor Bucket::slice(size_t i, const at::Tensor& flat) const {
  return flat.narrow(0, offsets_[i], parameters_[i].local.numel());
}

at::Tensor Bucket::flags(const at::Tensor& flat) const {
  return flat.narrow(0, elements_, static_cast<int64_t>(parameters_.size()));
}

void Bucket::put(size_t i, const at::Tensor& gradient) {
  const at::Tensor& parameter = parameters_[i].local;
  const at::Tensor to = slice(i, flat_);
  if (!gradient.defined()) {
    to.zero_();
  } else if (!is_in_place(gradient, to)) {
    to.view(parameter.sizes()).copy_(gradient);
  }
  flags(flat_).narrow(0, static_cast<int64_t>(i), 1).fill_(gradient.defined() ? 1 : 0);
}

std::vector<at::Tensor> Bucket::get(const at::Tensor& flat) const {
  const at::Tensor present = flags(flat).to(at::kCPU, at::kFloat);
  std::vector<at::Tensor> found(size());
  for (size_t i = 0; i < size(); ++i) {
    // Not by data pointer, which fake tensors do not have.
    const bool is_there = present.select(0, static_cast<int64_t>(i)).item<float>() != 0;
    if (is_there) found[i] = slice(i, flat).view(parameters_[i].local.sizes());
  }
  return found;
}

std::vector<Bucket> make_buckets(const std::vector<Parameter>& parameters, int64_t bucket_bytes,
                                 BucketMemory memory) {
  std::vector<Bucket> buckets;
  std::vector<Parameter> open;
  int64_t bytes = 0;
  const auto close = [&] {
    if (!open.empty()) buckets.emplace_back(std::exchange(open, {}));
    bytes = 0;
  };
  for (auto item = parameters.rbegin(); item != parameters.rend(); ++item) {
    const auto more = static_cast<int64_t>(item->local.nbytes());
    const int64_t limit =
        buckets.empty() ? std::min(kFirstBucketBytes, bucket_bytes) : bucket_bytes;
    const bool other =
        !open.empty() && open.front().local.scalar_type() != item->local.scalar_type();
    if (other || bytes + more > limit) close();
    open.push_back(*item);
    bytes += more;
  }
  close();
  for (Bucket& bucket : buckets) {
    if (memory == BucketMemory::kOwn) bucket.make_flat();
  }
  return buckets;
}

}  // namespace accel
