#include "parallel/communicator.h"

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

std::unique_ptr<Pending> FakeGroup::start_messages(const std::vector<Message>&, const char*) {
  return completed();
}

std::unique_ptr<Pending> FakeGroup::start_all_reduce(at::Tensor, ReduceOp, const char*) {
  return completed();
}

std::unique_ptr<Pending> FakeGroup::start_all_gather(at::Tensor out, const at::Tensor& in,
                                                     const char*) {
  out.view({world(), -1}).copy_(in.reshape({1, -1}));
  return completed_copy(out, world());
}

std::unique_ptr<Pending> FakeGroup::start_reduce_scatter(at::Tensor out, const at::Tensor& in,
                                                         ReduceOp, const char*) {
  out.view({-1}).copy_(in.view({world(), -1}).select(0, rank()));
  return completed_copy(in, world());
}

std::unique_ptr<Pending> FakeGroup::start_all_to_all(at::Tensor out, const at::Tensor& in,
                                                     const std::vector<int64_t>& out_rows,
                                                     const std::vector<int64_t>& in_rows,
                                                     const char*) {
  out.narrow(0, 0, out_rows.front()).copy_(in.narrow(0, 0, in_rows.front()));
  return completed();
}

std::unique_ptr<Communicator> FakeGroup::split(const Partition& partition) {
  return std::make_unique<FakeGroup>(static_cast<int64_t>(own_group(partition).size()));
}

}  // namespace accel
