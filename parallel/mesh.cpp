#include "parallel/mesh.h"

#include <ATen/ops/cat.h>

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
  if (padded.numel() == 0) {  // another stage has the tensor
    shape.front() = rows;
    return share.new_empty(shape).movedim(0, dim);
  }
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

const MeshAxis& mesh_axis(Axis axis) {
  for (const MeshAxis& item : kMeshAxes) {
    if (item.axis == axis) return item;
  }
  throw std::logic_error("unknown axis");
}

/// The number of ranks between neighbours along the axis.
int64_t stride_of(const MeshSizes& sizes, const MeshAxis& axis) {
  int64_t stride = 1;
  for (size_t i = kMeshAxes.size(); kMeshAxes[--i].axis != axis.axis;) {
    stride *= sizes.*kMeshAxes[i].size;
  }
  return stride;
}

/// The groups of expert parallelism. Experts are divided over neighbours of the ranks with
/// different tokens, and each over the next ones of the same copy.
void split_experts(const MeshSizes& sizes, Mesh& mesh) {
  if (sizes.expert == 1) return;
  if (sizes.gradients() % sizes.expert != 0 ||
      (sizes.all_shard() % sizes.expert != 0 && sizes.expert % sizes.all_shard() != 0)) {
    throw std::logic_error("the experts of a mesh do not match its ranks with different tokens");
  }
  const int64_t world = mesh.world->world(), stride = sizes.tensor;
  const int64_t shard = sizes.expert_shard(), with_same = sizes.gradients() / sizes.expert;
  // A separate group, though it may have all ranks: tokens do not wait for gradients.
  mesh.expert = mesh.world->split(groups_along(world, stride, sizes.expert));
  const int64_t next = stride * sizes.expert;
  split_along(mesh.world, next, shard, mesh.expert_shard);
  split_along(mesh.world, next * shard, with_same / shard, mesh.expert_replicate);
  if (shard == 1) {
    mesh.expert_data = mesh.expert_replicate;
  } else if (shard == with_same) {
    mesh.expert_data = mesh.expert_shard;
  } else {
    split_along(mesh.world, next, with_same, mesh.expert_data);
  }
}

/// Equal blocks of dimension `dim`, each of which a placement divides.
std::vector<at::Tensor> blocks_of(const at::Tensor& whole, const Placement& placement) {
  return placement.blocks == 1 ? std::vector{whole} : whole.chunk(placement.blocks, placement.dim);
}

at::Tensor joined(const std::vector<at::Tensor>& blocks, int64_t dim) {
  return blocks.size() == 1 ? blocks.front() : at::cat(blocks, dim);
}

}  // namespace

Communicator& Mesh::along(Axis axis) const {
  if (axis == Axis::kExpert) return *expert;
  if (axis == Axis::kExpertShard) return *expert_shard;
  return *(this->*mesh_axis(axis).group);
}

bool Mesh::leads() const {
  return pipeline->is_main() && context->is_main() && tensor->is_main();
}

std::string mesh_text(const MeshSizes& sizes) {
  std::string out;
  for (const MeshAxis& axis : kMeshAxes) {
    const int64_t size = sizes.*axis.size;
    if (size == 1) continue;
    out += (out.empty() ? "" : " x ") + std::string(axis.name) + " " + std::to_string(size);
  }
  return out;
}

std::string mesh_summary(const MeshSizes& sizes) {
  if (sizes.ranks() == sizes.data()) return "";
  std::string innermost, neighbours;
  for (size_t i = kMeshAxes.size(); i-- > 0;) {
    const MeshAxis& axis = kMeshAxes[i];
    if (sizes.*axis.size == 1) continue;
    if (innermost.empty()) innermost = axis.name;
    const std::vector<int64_t> ranks = ranks_along(sizes, axis, 0);
    neighbours += neighbours.empty() ? "ranks " : ", ";
    neighbours += std::to_string(ranks[0]) + " and " + std::to_string(ranks[1]);
    if (ranks.size() > 2) neighbours += " to " + std::to_string(ranks.back());
    neighbours += std::string(" along ") + axis.name;
  }
  return mesh_text(sizes) + ": " + innermost + " communicates most and has neighbouring ranks; " +
         neighbours;
}

std::string axes_of(const MeshSizes& sizes, const GroupShape& group) {
  std::string names;
  int64_t ranks = 1;
  for (size_t i = kMeshAxes.size(); i-- > 0 && ranks < group.ranks;) {
    const MeshAxis& axis = kMeshAxes[i];
    if (sizes.*axis.size == 1 || stride_of(sizes, axis) < group.stride) continue;
    if (names.empty() && stride_of(sizes, axis) != group.stride) return "";
    names = axis.name + (names.empty() ? "" : " x " + names);
    ranks *= sizes.*axis.size;
  }
  return ranks == group.ranks ? names : "";
}

std::string mesh_place(const MeshSizes& sizes, int64_t rank) {
  if (sizes.ranks() == sizes.data()) return "";
  std::string out;
  for (const MeshAxis& axis : kMeshAxes) {
    const int64_t size = sizes.*axis.size;
    if (size == 1) continue;
    out += (out.empty() ? "" : ", ") + std::string(axis.name) + " " +
           std::to_string(rank / stride_of(sizes, axis) % size);
  }
  return out;
}

std::vector<int64_t> ranks_along(const MeshSizes& sizes, const MeshAxis& axis, int64_t rank) {
  const int64_t stride = stride_of(sizes, axis), size = sizes.*axis.size;
  const int64_t first = rank - rank / stride % size * stride;
  std::vector<int64_t> ranks;
  for (int64_t i = 0; i < size; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

Mesh make_mesh(std::shared_ptr<Communicator> world, const MeshSizes& sizes) {
  Mesh mesh;
  mesh.world = std::move(world);
  if (sizes.ranks() != mesh.world->world()) {
    throw std::logic_error("the sizes of a mesh do not match its ranks");
  }
  for (size_t i = kMeshAxes.size(); i-- > 0;) {
    const MeshAxis& axis = kMeshAxes[i];
    if (axis.axis == Axis::kShard) {
      split_along(mesh.world, sizes.tensor, sizes.shard * sizes.context, mesh.shard);
    } else {
      split_along(mesh.world, stride_of(sizes, axis), sizes.*axis.size, mesh.*axis.group);
    }
  }
  mesh.gradients = sizes.replicate == 1 ? mesh.shard : mesh.replicate;
  if (sizes.replicate > 1 && sizes.shard * sizes.context > 1) {
    split_along(mesh.world, sizes.tensor, sizes.data() * sizes.context, mesh.gradients);
  }
  mesh.data = mesh.gradients;
  if (sizes.context > 1) {
    mesh.data = std::make_shared<SingleProcess>();
    split_along(mesh.world, sizes.tensor * sizes.context, sizes.data(), mesh.data);
  }
  split_experts(sizes, mesh);
  return mesh;
}

Shape share_on_stage(const Parameter& parameter, const Mesh& mesh) {
  Shape shape = parameter.shape();
  for (const Placement& placement : parameter.placements) {
    if (placement.owner) continue;
    int64_t& size = shape.at(static_cast<size_t>(placement.dim));
    size = placement.blocks * rows_of(placement, size / placement.blocks, mesh).count;
  }
  return shape;
}

Mesh data_parallel_mesh(std::shared_ptr<Communicator> world) {
  const int64_t ranks = world->world();
  return make_mesh(std::move(world), {.replicate = ranks});
}

at::Tensor gather_whole(const Parameter& parameter, const Mesh& mesh) {
  if (parameter.is_replicated()) return parameter.local;
  Shape shape = parameter.global;
  std::vector<int64_t> rows;  // along each placement's dimension, before it divides them
  for (const Placement& placement : parameter.placements) {
    int64_t& size = shape.at(static_cast<size_t>(placement.dim));
    rows.push_back(size);
    size = placement.blocks * rows_of(placement, size / placement.blocks, mesh).count;
  }
  at::Tensor whole = parameter.local.detach();
  for (size_t i = rows.size(); i-- > 0;) {
    const Placement& placement = parameter.placements[i];
    if (placement.owner) {
      whole = gather_from_owner(placement, whole, rows[i], mesh);
      continue;
    }
    std::vector<at::Tensor> blocks = blocks_of(whole, placement);
    for (at::Tensor& block : blocks) {
      block = gather_along(mesh.along(placement.axis), block, placement.dim,
                           rows[i] / placement.blocks);
    }
    whole = joined(blocks, placement.dim);
  }
  return whole.contiguous();
}

at::Tensor share_of(const at::Tensor& whole, const std::vector<Placement>& placements,
                    const Mesh& mesh) {
  at::Tensor share = whole;
  for (const Placement& placement : placements) {
    std::vector<at::Tensor> blocks = blocks_of(share, placement);
    for (at::Tensor& block : blocks) {
      const auto [first, rows] = rows_of(placement, block.size(placement.dim), mesh);
      block = block.narrow(placement.dim, first, rows);
    }
    share = joined(blocks, placement.dim);
  }
  return share;
}

}  // namespace accel
