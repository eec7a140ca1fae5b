#include "parallel/communicator.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <stdexcept>

namespace accel {
namespace {

class Completed final : public Pending {
 public:
  void wait() override {}
};

std::unique_ptr<Pending> completed() {
  return std::make_unique<Completed>();
}

/// A collective of the CPU, for which Gloo copies the tensor of all ranks.
class Copied final : public Pending {
 public:
  explicit Copied(const at::Tensor& all) : copy_(all.new_empty(all.sizes())) {}
  void wait() override { copy_.reset(); }

 private:
  at::Tensor copy_;
};

/// `all`: the tensor of all ranks.
std::unique_ptr<Pending> completed_copy(const at::Tensor& all, int64_t ranks) {
  if (ranks == 1) return completed();
  return std::make_unique<Copied>(all);
}

}  // namespace

at::Tensor Communicator::shared_zeros(int64_t bytes, const char* /*purpose*/) {
  return at::zeros({bytes}, at::kByte);
}

at::Tensor Communicator::all_gather(const at::Tensor& tensor, const char* purpose) {
  std::vector<int64_t> shape = {world_};
  shape.insert(shape.end(), tensor.sizes().begin(), tensor.sizes().end());
  at::Tensor all = tensor.new_empty(shape);
  start_all_gather(all, tensor, purpose)->wait();
  return all;
}

const std::vector<int64_t>& Communicator::own_group(const Partition& partition) const {
  const std::vector<int64_t>* own = nullptr;
  size_t ranks = 0;
  for (const std::vector<int64_t>& group : partition) {
    ranks += group.size();
    if (std::find(group.begin(), group.end(), rank_) == group.end()) continue;
    if (own) throw std::logic_error("two groups of a partition have the same rank");
    own = &group;
  }
  if (!own || ranks != static_cast<size_t>(world_)) {
    throw std::logic_error("a partition has not every rank once");
  }
  return *own;
}

void FakeGroup::count(const char* purpose, int64_t bytes, int64_t parts) const {
  if (!traffic_ || world() == 1) return;
  Sent& sent = (*traffic_)[{shape_, purpose}];
  sent.bytes += bytes * parts / world();
  ++sent.calls;
}

std::unique_ptr<Pending> FakeGroup::start_messages(const std::vector<Message>& messages,
                                                   const char* purpose) {
  for (const Message& message : messages) {
    if (message.kind == Message::Kind::kReceive) continue;
    count(purpose, static_cast<int64_t>(message.tensor.nbytes()), world());
  }
  return completed();
}

std::unique_ptr<Pending> FakeGroup::start_all_reduce(at::Tensor tensor, ReduceOp,
                                                     const char* purpose) {
  count(purpose, static_cast<int64_t>(tensor.nbytes()), 2 * (world() - 1));
  return completed();
}

std::unique_ptr<Pending> FakeGroup::start_all_gather(at::Tensor out, const at::Tensor& in,
                                                     const char* purpose) {
  count(purpose, static_cast<int64_t>(out.nbytes()), world() - 1);
  out.view({world(), -1}).copy_(in.reshape({1, -1}));
  return completed_copy(out, world());
}

std::unique_ptr<Pending> FakeGroup::start_reduce_scatter(at::Tensor out, const at::Tensor& in,
                                                         ReduceOp, const char* purpose) {
  count(purpose, static_cast<int64_t>(in.nbytes()), world() - 1);
  out.view({-1}).copy_(in.view({world(), -1}).select(0, rank()));
  return completed_copy(in, world());
}

std::unique_ptr<Pending> FakeGroup::start_all_to_all(at::Tensor out, const at::Tensor& in,
                                                     const std::vector<int64_t>& out_rows,
                                                     const std::vector<int64_t>& in_rows,
                                                     const char* purpose) {
  const auto sent = static_cast<int64_t>(in.nbytes());
  const int64_t rows = in.size(0);
  if (rows > 0) count(purpose, sent / rows * (rows - in_rows.front()), world());
  out.narrow(0, 0, out_rows.front()).copy_(in.narrow(0, 0, in_rows.front()));
  return completed();
}

void FakeGroup::broadcast(at::Tensor tensor, int64_t /*root*/, const char* purpose) {
  count(purpose, static_cast<int64_t>(tensor.nbytes()), world() - 1);
}

std::unique_ptr<Communicator> FakeGroup::split(const Partition& partition) {
  const std::vector<int64_t>& own = own_group(partition);
  const int64_t stride = own.size() > 1 ? (own[1] - own[0]) * shape_.stride : 1;
  return std::unique_ptr<FakeGroup>(
      new FakeGroup(GroupShape{static_cast<int64_t>(own.size()), stride}, traffic_));
}

}  // namespace accel
