// The mesh of ranks: how a model, its optimizer state and its data are divided over processes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/api/parameter.h"
#include "parallel/communicator.h"

namespace accel {

/// This rank's communicator for each axis, outermost first; an axis of size 1 is a SingleProcess.
/// What all ranks agree on, such as the end of a run or a checkpoint, goes by `world`.
struct Mesh {
  std::shared_ptr<Communicator> world = std::make_shared<SingleProcess>();
  std::shared_ptr<Communicator> pipeline = std::make_shared<SingleProcess>();
  std::shared_ptr<Communicator> replicate = std::make_shared<SingleProcess>();
  /// The ranks that share one copy of the model's rows: those along dp_shard and cp.
  std::shared_ptr<Communicator> shard = std::make_shared<SingleProcess>();
  std::shared_ptr<Communicator> context = std::make_shared<SingleProcess>();
  std::shared_ptr<Communicator> tensor = std::make_shared<SingleProcess>();
  /// Along dp_replicate and dp_shard: the ranks with different samples. Batch arithmetic, the
  /// loader, metrics and random streams go by it.
  std::shared_ptr<Communicator> data = std::make_shared<SingleProcess>();
  /// Along dp_replicate, dp_shard and cp: the ranks whose gradients are summed.
  std::shared_ptr<Communicator> gradients = std::make_shared<SingleProcess>();
  /// Expert parallelism divides `gradients` into ranks that divide the experts, and those with the
  /// same experts: `expert_data`, of which `expert_replicate` and `expert_shard` are the parts.
  std::shared_ptr<Communicator> expert = std::make_shared<SingleProcess>();
  std::shared_ptr<Communicator> expert_data = std::make_shared<SingleProcess>();
  std::shared_ptr<Communicator> expert_replicate = std::make_shared<SingleProcess>();
  std::shared_ptr<Communicator> expert_shard = std::make_shared<SingleProcess>();

  Communicator& along(Axis axis) const;
  /// Whether this rank is the first of those with the same samples, for sums of the data's numbers
  /// over `world`.
  bool leads() const;
};

/// Number of ranks along each axis.
struct MeshSizes {
  int64_t pipeline = 1;
  int64_t replicate = 1;
  int64_t shard = 1;
  int64_t context = 1;
  int64_t tensor = 1;
  int64_t expert = 1;  ///< ranks of `gradients()` that divide the experts

  /// Ranks along all axes, those with different samples, and those with different tokens.
  int64_t ranks() const { return pipeline * context * tensor * data(); }
  int64_t data() const { return replicate * shard; }
  int64_t gradients() const { return data() * context; }
  /// Ranks that divide the parameters of a model without experts, and those of one expert.
  int64_t all_shard() const { return shard * context; }
  int64_t expert_shard() const { return expert < all_shard() ? all_shard() / expert : 1; }
};

/// An axis of the mesh: its name in recipes, its size and its communicator.
struct MeshAxis {
  Axis axis;
  const char* name;
  int64_t MeshSizes::*size;
  std::shared_ptr<Communicator> Mesh::*group;
};

/// Outermost first.
inline constexpr std::array<MeshAxis, 5> kMeshAxes = {{
    {Axis::kPipeline, "pp", &MeshSizes::pipeline, &Mesh::pipeline},
    {Axis::kReplicate, "dp_replicate", &MeshSizes::replicate, &Mesh::replicate},
    {Axis::kShard, "dp_shard", &MeshSizes::shard, &Mesh::shard},
    {Axis::kContext, "cp", &MeshSizes::context, &Mesh::context},
    {Axis::kTensor, "tp", &MeshSizes::tensor, &Mesh::tensor},
}};

/// The axes of more than one rank: "dp_replicate 2 x tp 4"; "" without.
std::string mesh_text(const MeshSizes& sizes);

/// "dp_shard 2 x tp 2: tp communicates most and has neighbouring ranks; ranks 0 and 1 along tp, 0
/// and 2 along dp_shard"; "" for data parallel axes alone.
std::string mesh_summary(const MeshSizes& sizes);

/// The axes along which a group's ranks differ: "tp", "dp_replicate x dp_shard"; "" for a group
/// that no axes make up.
std::string axes_of(const MeshSizes& sizes, const GroupShape& group);

/// "pp 1, tp 0", the place of a rank along the axes of more than one rank; "" for data parallel
/// axes alone.
std::string mesh_place(const MeshSizes& sizes, int64_t rank);

/// The ranks that differ from `rank` along this axis alone, with it: in the order of the axis.
std::vector<int64_t> ranks_along(const MeshSizes& sizes, const MeshAxis& axis, int64_t rank);

/// Divides the ranks of `world`; their product is its number of ranks. Ranks are numbered with the
/// innermost axis fastest, so that the ranks that communicate most are neighbours. All ranks call
/// it. Throws std::logic_error when the product differs.
Mesh make_mesh(std::shared_ptr<Communicator> world, const MeshSizes& sizes);

/// The shape of this rank's share of the parameter, on the stage of a pipeline that has it.
Shape share_on_stage(const Parameter& parameter, const Mesh& mesh);

/// All ranks of `world` hold the whole model and share the batch.
Mesh data_parallel_mesh(std::shared_ptr<Communicator> world);

/// The whole tensor on every rank, contiguous; `local` itself where it is replicated. All ranks of
/// the parameter's axes call it.
at::Tensor gather_whole(const Parameter& parameter, const Mesh& mesh);

/// This rank's share of a whole tensor: a view, or a copy where a placement has blocks.
at::Tensor share_of(const at::Tensor& whole, const std::vector<Placement>& placements,
                    const Mesh& mesh);

}  // namespace accel
