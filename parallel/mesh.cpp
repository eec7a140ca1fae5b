#include "parallel/mesh.h"

#include <array>
#include <stdexcept>
#include <utility>

#include "parallel/row_share.h"

namespace accel {
namespace {

RowShare rows_of(const Placement& placement, int64_t rows, const Mesh& mesh) {
  const Communicator& group = mesh.along(placement.axis);
  return row_share(placement, rows, group.world(), group.rank());
}

/// The tensor of the rank that has all of it, of this shape along the placement's dimension.
at::Tensor gather_from_owner(const Placement& placement, const at::Tensor& share, int64_t rows,
                             const Mesh& mesh) {
  Communicator& group = mesh.along(placement.axis);
  std::vector<int64_t> shape = share.sizes().vec();
  shape.at(static_cast<size_t>(placement.dim)) = rows;
  const bool owns = group.rank() == *placement.owner;
  const at::Tensor whole = owns ? share.contiguous() : share.new_empty(shape);
  group.broadcast(whole, *placement.owner, "shares of a tensor");
  return whole;
}

/// The tensors of all ranks along `dim`, of `rows` rows together. Padding is at the end, since only
/// the last ranks have fewer rows than the others.
at::Tensor gather_along(Communicator& group, const at::Tensor& share, int64_t dim, int64_t rows) {
  const at::Tensor own = share.movedim(dim, 0);
  std::vector<int64_t> shape = own.sizes().vec();
  shape.front() = rows_per_rank(rows, group.world());
  const at::Tensor padded = share.new_zeros(shape);
  padded.narrow(0, 0, own.size(0)).copy_(own);
  return group.all_gather(padded, "shares of a tensor")
      .flatten(0, 1)
      .narrow(0, 0, rows)
      .movedim(0, dim);
}

/// The ranks that differ along one axis alone, `stride` apart, for every combination of the others.
Partition groups_along(int64_t world, int64_t stride, int64_t size) {
  Partition groups;
  for (int64_t first = 0; first < world; ++first) {
    if (first / stride % size != 0) continue;
    std::vector<int64_t>& group = groups.emplace_back();
    for (int64_t i = 0; i < size; ++i) group.push_back(first + i * stride);
  }
  return groups;
}

/// Replaces `group` by this rank's group along an axis of more than one rank.
void split_along(const std::shared_ptr<Communicator>& world, int64_t stride, int64_t size,
                 std::shared_ptr<Communicator>& group) {
  if (size == 1) return;
  group = size == world->world() ? world : world->split(groups_along(world->world(), stride, size));
}

}  // namespace

Communicator& Mesh::along(Axis axis) const {
  switch (axis) {
    case Axis::kPipeline:
      return *pipeline;
    case Axis::kReplicate:
      return *replicate;
    case Axis::kShard:
      return *shard;
    case Axis::kContext:
      return *context;
    case Axis::kTensor:
      return *tensor;
  }
  throw std::logic_error("unknown axis");
}

Mesh make_mesh(std::shared_ptr<Communicator> world, const MeshSizes& sizes) {
  Mesh mesh;
  mesh.world = std::move(world);
  const std::array axes = {
      std::pair(&mesh.tensor, sizes.tensor), std::pair(&mesh.context, sizes.context),
      std::pair(&mesh.shard, sizes.shard), std::pair(&mesh.replicate, sizes.replicate),
      std::pair(&mesh.pipeline, sizes.pipeline)};
  int64_t product = 1;
  for (const auto& axis : axes) product *= axis.second;
  const int64_t ranks = mesh.world->world();
  if (product != ranks) throw std::logic_error("the sizes of a mesh do not match its ranks");
  int64_t stride = 1;
  for (const auto& [group, size] : axes) {
    split_along(mesh.world, stride, size, *group);
    stride *= size;
  }
  if (sizes.replicate == 1) {
    mesh.data = mesh.shard;
  } else if (sizes.shard == 1) {
    mesh.data = mesh.replicate;
  } else {
    split_along(mesh.world, sizes.tensor * sizes.context, sizes.replicate * sizes.shard, mesh.data);
  }
  return mesh;
}

Mesh data_parallel_mesh(std::shared_ptr<Communicator> world) {
  const int64_t ranks = world->world();
  return make_mesh(std::move(world), {.replicate = ranks});
}

bool Mesh::leads() const {
  return pipeline->is_main() && context->is_main() && tensor->is_main();
}

at::Tensor gather_whole(const Parameter& parameter, const Mesh& mesh) {
  if (parameter.is_replicated()) return parameter.local;
  Shape shape = parameter.global;
  std::vector<int64_t> rows;  // along each placement's dimension, before it divides them
  for (const Placement& placement : parameter.placements) {
    int64_t& size = shape.at(static_cast<size_t>(placement.dim));
    rows.push_back(size);
    size = rows_of(placement, size, mesh).count;
  }
  at::Tensor whole = parameter.local.detach();
  for (size_t i = rows.size(); i-- > 0;) {
    const Placement& placement = parameter.placements[i];
    if (placement.owner) {
      whole = gather_from_owner(placement, whole, rows[i], mesh);
      continue;
    }
    whole = gather_along(mesh.along(placement.axis), whole, placement.dim, rows[i]);
  }
  return whole.contiguous();
}

at::Tensor share_of(const at::Tensor& whole, const std::vector<Placement>& placements,
                    const Mesh& mesh) {
  at::Tensor share = whole;
  for (const Placement& placement : placements) {
    const auto [first, rows] = rows_of(placement, share.size(placement.dim), mesh);
    share = share.narrow(placement.dim, first, rows);
  }
  return share;
}

}  // namespace accel
