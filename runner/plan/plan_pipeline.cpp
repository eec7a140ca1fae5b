#include "runner/plan/plan_pipeline.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "models/layers/module_state.h"
#include "parallel/pipeline/simulate.h"
#include "train/job/build_pipeline.h"

namespace accel {
namespace {

constexpr size_t kDrawingWidth = 100;

/// "0-3", "4".
std::string range_text(int64_t first, int64_t count) {
  const std::string begin = std::to_string(first);
  return count == 1 ? begin : begin + "-" + std::to_string(first + count - 1);
}

/// The state of a job's parameters on the ranks of their stages.
class StageState {
 public:
  StageState(const Job& job, int64_t optimizer_bytes) : job_(job) {
    const AcceleratorSection& section = job.recipe.accelerator;
    if (section.fsdp.param_dtype_under(section.mixed_precision) != FsdpDtype::kFp32) {
      for (std::string& name : autocast_weights_of(*job.model)) cast_.insert(std::move(name));
    }
    int64_t trained = 0;  // on this rank
    for (const Parameter& item : job.parameters) {
      if (item.local.requires_grad()) trained += item.local.numel();
    }
    if (trained > 0) {
      optimizer_bytes_per_element_ =
          static_cast<double>(optimizer_bytes) / static_cast<double>(trained);
    }
  }

  void add(const Parameter& item, PlannedStage& rank) const {
    const int64_t bytes = add_weight(item, rank);
    if (!item.local.requires_grad()) return;
    const auto elements = static_cast<int64_t>(bytes / item.local.element_size());
    rank.optimizer +=
        static_cast<int64_t>(optimizer_bytes_per_element_ * static_cast<double>(elements));
  }

  /// Adds the share's weight and gradient; returns the bytes of each.
  int64_t add_weight(const Parameter& item, PlannedStage& rank) const {
    const int64_t count = count_of(share_on_stage(item, job_.mesh));
    const int64_t bytes = count * item.local.element_size();
    rank.weights += bytes + whole_beside_share(item, count);
    if (item.local.requires_grad()) rank.gradients += bytes;
    return bytes;
  }

 private:
  /// Bytes that FSDP's stages 1 and 2 keep beside the parameter's share; 0 for an undivided one.
  int64_t whole_beside_share(const Parameter& item, int64_t share) const {
    const int64_t stage = job_.recipe.accelerator.fsdp.stage;
    if (stage != 1 && stage != 2) return 0;
    Mesh undivided = job_.mesh;
    undivided.shard = undivided.expert_shard = std::make_shared<SingleProcess>();
    const int64_t whole = count_of(share_on_stage(item, undivided));
    if (whole == share) return 0;
    return whole * (cast_.contains(item.name) ? 2 : item.local.element_size());
  }

  const Job& job_;
  std::set<std::string> cast_;  ///< whole weights in a 16-bit type
  double optimizer_bytes_per_element_ = 0;
};

}  // namespace

std::optional<PlannedPipeline> plan_pipeline(const Job& job, int64_t optimizer_bytes) {
  const AcceleratorSection& section = job.recipe.accelerator;
  if (section.parallelism.pp == 1) return std::nullopt;
  const ModelStages stages = divide_into_stages(job);
  PlannedPipeline out;
  out.schedule = pipeline_schedule(section, job.batches.accumulation);
  const PipelineLayout& layout = out.schedule.layout;
  out.summary = pipeline_summary(job);
  out.ranks.resize(static_cast<size_t>(layout.ranks));
  std::vector<double> blocks_of_rank(out.ranks.size());
  int64_t first = 0;
  double all = 0, own_cost = 0;
  for (int64_t stage = 0; stage < layout.stages(); ++stage) {
    const int64_t rank = layout.rank_of(stage);
    const int64_t count = stages.blocks_per_stage[static_cast<size_t>(stage)];
    std::string& blocks = out.ranks[static_cast<size_t>(rank)].blocks;
    blocks += (blocks.empty() ? "blocks " : ", ") + range_text(first, count);
    first += count;
    blocks_of_rank[static_cast<size_t>(rank)] += static_cast<double>(count);
    const double cost = stages.costs[static_cast<size_t>(stage)];
    all += cost;
    own_cost += rank == 0 ? cost : 0;
  }
  if (own_cost == 0) all = own_cost = 1;
  out.relative_cost = all / own_cost;
  for (const double cost : stages.costs) out.relative_costs.push_back(cost / own_cost);
  const StageState state(job, optimizer_bytes);
  for (size_t i = 0; i < stages.parameters.size(); ++i) {
    const StageParameter& item = stages.parameters[i];
    const int64_t owner = layout.rank_of(item.stage);
    state.add(job.parameters[i], out.ranks[static_cast<size_t>(owner)]);
    const int64_t reader = item.also_read_by ? layout.rank_of(*item.also_read_by) : owner;
    if (reader != owner) {
      state.add_weight(job.parameters[i], out.ranks[static_cast<size_t>(reader)]);
    }
  }
  for (int64_t rank = 0; rank < layout.ranks; ++rank) {
    PlannedStage& own = out.ranks[static_cast<size_t>(rank)];
    own.alive = most_alive(section.pipeline.schedule, layout, out.schedule.micro_batches, rank);
    own.relative_activations = blocks_of_rank[static_cast<size_t>(rank)] / blocks_of_rank.front();
  }
  const int64_t drawn = std::min(out.schedule.micro_batches, 2 * layout.ranks);
  out.drawing = draw_pipeline(pipeline_schedule(section, drawn), kDrawingWidth);
  return out;
}

int64_t measured_micro_batches(const Job& job, PlanDetail detail) {
  const int64_t all = job.batches.accumulation;
  const int64_t ranks = job.recipe.accelerator.parallelism.pp;
  if (ranks == 1) return std::min<int64_t>(2, all);
  const bool keeps_all = job.recipe.accelerator.pipeline.schedule == PipelineKind::kGpipe;
  return keeps_all && detail == PlanDetail::kMeasured ? all : std::min(2 * ranks, all);
}

}  // namespace accel
