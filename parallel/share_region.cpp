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

/// Consecutive indices of the whole dimension, in the order of the share.
using Ranges = std::vector<RowShare>;

int64_t count_in(const Ranges& ranges) {
  int64_t count = 0;
  for (const RowShare& range : ranges) count += range.count;
  return count;
}

/// Appends indices [first, first + count) of `from` to `to`, joining ranges that follow each other.
void append(const Ranges& from, RowShare wanted, Ranges& to) {
  int64_t begin = 0;
  for (const RowShare& range : from) {
    const int64_t low = std::max(wanted.first, begin);
    const int64_t high = std::min(wanted.first + wanted.count, begin + range.count);
    const int64_t first = range.first + low - begin;
    begin += range.count;
    if (low >= high) continue;
    if (!to.empty() && to.back().first + to.back().count == first) {
      to.back().count += high - low;
    } else {
      to.push_back({first, high - low});
    }
  }
}

/// A rank's share of the indices. An empty one begins where the next rank's would.
Ranges divided(const Ranges& from, const Placement& placement, const Communicator& group) {
  const int64_t block = count_in(from) / placement.blocks;
  const RowShare own = row_share(placement, block, group.world(), group.rank());
  Ranges out;
  for (int64_t i = 0; i < placement.blocks; ++i) {
    append(from, {i * block + own.first, own.count}, out);
  }
  const int64_t end = from.back().first + from.back().count;
  if (out.empty()) out.push_back({placement.owner ? from.front().first : end, 0});
  return out;
}

}  // namespace

std::vector<ShareRegion> share_regions(const Parameter& parameter, const Mesh& mesh) {
  const Shape whole = parameter.shape();
  std::vector<Ranges> ranges;  // of each dimension
  for (const int64_t size : whole) ranges.push_back({{0, size}});
  for (const Placement& placement : parameter.placements) {
    Ranges& of_dim = ranges.at(static_cast<size_t>(placement.dim));
    of_dim = divided(of_dim, placement, mesh.along(placement.axis));
  }
  ShareRegion first = {Shape(whole.size(), 0), whole};
  for (size_t dim = 0; dim < whole.size(); ++dim) {
    first.offsets[dim] = ranges[dim].front().first;
    first.sizes[dim] = ranges[dim].front().count;
  }
  std::vector<ShareRegion> out = {first};
  for (size_t i = 1; !ranges.empty() && i < ranges.front().size(); ++i) {
    out.push_back(first);
    out.back().offsets.front() = ranges.front()[i].first;
    out.back().sizes.front() = ranges.front()[i].count;
  }
  return out;
}

Replica replica_of(const Parameter& parameter, const Mesh& mesh) {
  Replica out = {0, 1};
  const auto is_divided = [&](Axis axis) {
    return std::ranges::any_of(parameter.placements,
                               [&](const Placement& placement) { return placement.axis == axis; });
  };
  const auto add = [&](const Communicator& group) {
    out.index = out.index * group.world() + group.rank();
    out.count *= group.world();
  };
  if (is_divided(Axis::kExpert)) {
    add(*mesh.expert_replicate);
    if (!is_divided(Axis::kExpertShard)) add(*mesh.expert_shard);
  } else {
    add(*mesh.replicate);
    if (!is_divided(Axis::kShard)) add(*mesh.shard);  // with the ranks of cp
  }
  if (!is_divided(Axis::kTensor)) add(*mesh.tensor);
  return out;
}

bool repeats_empty_share(const Parameter& parameter, const Mesh& mesh) {
  Shape sizes = parameter.shape();
  for (const Placement& placement : parameter.placements) {
    const Communicator& group = mesh.along(placement.axis);
    int64_t& size = sizes[static_cast<size_t>(placement.dim)];
    const int64_t rank = group.rank(), ranks = group.world();
    if (placement.owner && *placement.owner != rank) return true;
    if (placement.owner) continue;
    const int64_t block = size / placement.blocks;
    const bool before = rank > 0 && row_share(block, ranks, rank - 1).count == 0;
    size = placement.blocks * row_share(block, ranks, rank).count;
    if (size == 0 && (before || parameter.placements.size() > 1)) return true;
  }
  return false;
}

std::shared_ptr<const ShardExchange> make_shard_exchange(const Mesh& mesh) {
  return std::make_shared<MeshExchange>(mesh);
}

}  // namespace accel
