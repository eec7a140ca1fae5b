#include "parallel/share_region.h"

#include <algorithm>
#include <utility>

#include "parallel/row_share.h"

namespace accel {
namespace {

class MeshExchange final : public ShardExchange {
 public:
  explicit MeshExchange(Mesh mesh) : mesh_(std::move(mesh)) {}

  at::Tensor gather(const at::Tensor& part, const Parameter& parameter) const override {
    return gather_whole({parameter.name, part, parameter.global, parameter.placements}, mesh_);
  }

  at::Tensor part_of(const at::Tensor& whole, const Parameter& parameter) const override {
    return share_of(whole, parameter.placements, mesh_);
  }

  void all_reduce(const at::Tensor& values, Reduce how, const Parameter& parameter) const override {
    const ReduceOp op = how == Reduce::kMax ? ReduceOp::kMax : ReduceOp::kSum;
    int64_t ranks = 1;
    for (const Placement& placement : parameter.placements) {
      Communicator& group = mesh_.along(placement.axis);
      group.all_reduce(values, op, "optimizer statistics");
      ranks *= group.world();
    }
    if (how == Reduce::kMean) values.div_(static_cast<double>(ranks));
  }

 private:
  Mesh mesh_;
};

}  // namespace

ShareRegion share_region(const Parameter& parameter, const Mesh& mesh) {
  const Shape whole = parameter.shape();
  ShareRegion out = {Shape(whole.size(), 0), whole};
  for (const Placement& placement : parameter.placements) {
    const Communicator& group = mesh.along(placement.axis);
    const auto dim = static_cast<size_t>(placement.dim);
    const RowShare rows = row_share(out.sizes[dim], group.world(), group.rank());
    out.offsets[dim] += rows.first;
    out.sizes[dim] = rows.count;
  }
  return out;
}

Replica replica_of(const Parameter& parameter, const Mesh& mesh) {
  Replica out = {0, 1};
  for (const Axis axis : {Axis::kReplicate, Axis::kShard, Axis::kContext, Axis::kTensor}) {
    const auto divides = [&](const Placement& placement) { return placement.axis == axis; };
    if (std::ranges::any_of(parameter.placements, divides)) continue;
    const Communicator& group = mesh.along(axis);
    out.index = out.index * group.world() + group.rank();
    out.count *= group.world();
  }
  return out;
}

bool repeats_empty_share(const Parameter& parameter, const Mesh& mesh) {
  Shape sizes = parameter.shape();
  for (const Placement& placement : parameter.placements) {
    const Communicator& group = mesh.along(placement.axis);
    int64_t& size = sizes[static_cast<size_t>(placement.dim)];
    const int64_t rank = group.rank(), ranks = group.world();
    const bool before = rank > 0 && row_share(size, ranks, rank - 1).count == 0;
    size = row_share(size, ranks, rank).count;
    if (size == 0 && before) return true;
  }
  return false;
}

std::shared_ptr<const ShardExchange> make_shard_exchange(const Mesh& mesh) {
  return std::make_shared<MeshExchange>(mesh);
}

}  // namespace accel
