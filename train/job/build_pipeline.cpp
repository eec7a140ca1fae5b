#include "train/job/build_pipeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/api/auxiliary_loss.h"
#include "core/api/block.h"
#include "core/base/text.h"
#include "models/layers/module_state.h"
#include "parallel/pipeline/balance.h"
#include "parallel/pipeline/simulate.h"
#include "train/job/build_expert_parallel.h"
#include "train/job/build_fsdp.h"
#include "train/job/build_tensor_parallel.h"

namespace accel {
namespace {

[[noreturn]] void refuse(const Node& resolved, const std::string& path, const std::string& message,
                         const std::string& hint) {
  throw RecipeError({{recipe_place(resolved, path), message, hint}});
}

constexpr auto kKey = "accelerator.parallelism.pp";

/// Weights of matrix products.
double cost_of(const Parameter& parameter) {
  return parameter.shape().size() < 2 ? 0 : static_cast<double>(parameter.numel());
}

/// The parameters of a chain: the number of the block of each, or -1 before and `blocks` after all
/// of them, and its cost.
struct ChainParameters {
  std::vector<Parameter> all;
  std::vector<int64_t> block;
  std::vector<double> costs;
};

ChainParameters parameters_of_chain(const Job& job, const std::vector<Block*>& chain) {
  std::map<const void*, int64_t> users;  // tensors of blocks
  for (const BlockParameters& item : blocks_of(*job.model)) {
    const auto found = std::find(chain.begin(), chain.end(), item.block);
    if (found == chain.end()) continue;
    for (const Parameter& parameter : item.parameters) {
      users[parameter.local.unsafeGetTensorImpl()] = found - chain.begin();
    }
  }
  ChainParameters out{parameters_of(*job.model), {}, {}};
  place_tensors(job, out.all);
  bool is_before = true;
  for (size_t i = 0; i < out.all.size(); ++i) {
    const Parameter& item = out.all[i];
    const auto found = users.find(item.local.unsafeGetTensorImpl());
    const bool in_block = found != users.end();
    is_before = is_before && !in_block;
    const auto outside = is_before ? int64_t{-1} : static_cast<int64_t>(chain.size());
    out.block.push_back(in_block ? found->second : outside);
    // The model's tensor is empty once another rank has it.
    out.costs.push_back(cost_of(job.parameters[i]));
  }
  return out;
}

/// Costs of blocks, the head's added to the last one; a lookup in an embedding costs little.
std::vector<double> block_costs(const ChainParameters& parameters, size_t blocks,
                                const at::Tensor& tied) {
  std::vector<double> costs(blocks, 0.0);
  for (size_t i = 0; i < parameters.all.size(); ++i) {
    const double cost = parameters.costs[i];
    const bool in_head = tied.defined() && parameters.all[i].local.is_same(tied);
    if (parameters.block[i] >= 0) {
      costs[std::min(static_cast<size_t>(parameters.block[i]), blocks - 1)] += cost;
    }
    if (in_head) costs.back() += cost;
  }
  return costs;
}

std::vector<int64_t> stage_sizes(const Job& job, const std::vector<double>& costs) {
  const AcceleratorSection& section = job.recipe.accelerator;
  const int64_t stages = section.parallelism.pp * section.pipeline.stages_of_rank();
  const auto blocks = static_cast<int64_t>(costs.size());
  if (blocks < stages) {
    refuse(job.resolved, kKey,
           text("{} pipeline stages need as many blocks, but the model '{}' has {}", stages,
                job.recipe.model.type, blocks),
           "lower 'pp' or 'pipeline.stages_per_rank', or use a deeper model");
  }
  const std::vector<int64_t>& given = section.pipeline.blocks;
  if (given.empty()) return balance_blocks(costs, stages);
  int64_t sum = 0;
  for (const int64_t size : given) sum += size;
  const bool fits = sum == blocks && std::ranges::all_of(given, [](int64_t n) { return n > 0; });
  if (fits) return given;
  refuse(job.resolved, "accelerator.pipeline.blocks",
         text("'blocks' has {} blocks, at least one in each stage, but the model '{}' has {}", sum,
              job.recipe.model.type, blocks),
         "make the sizes add up to the model's blocks, or leave 'blocks' out");
}

BlockChain& chain_of(const Job& job) {
  auto* const chain = dynamic_cast<BlockChain*>(job.model.get());
  if (!chain) {
    refuse(job.resolved, kKey,
           text("the model '{}' cannot be divided into pipeline stages: it is no chain of blocks",
                job.recipe.model.type),
           "leave 'pp' out, or use a model such as 'gpt', 'llama', 'bert' or 'vit'");
  }
  if (!job.task_models.empty()) {
    refuse(job.resolved, kKey,
           text("'pp' does not support the further models of the task '{}'", job.recipe.task.type),
           "leave 'pp' out with this task");
  }
  // Each stage counts the load of its layers; their sums are those of all.
  const bool is_balanced = dynamic_cast<const ExpertBalance*>(job.model.get()) != nullptr;
  if (!job.buffers.empty() && !is_balanced) {
    refuse(job.resolved, kKey,
           text("'pp' does not support buffers, such as '{}' of the model '{}'",
                job.buffers.front().name, job.recipe.model.type),
           "leave 'pp' out with this model");
  }
  return *chain;
}

void check_parameter(const Job& job, const Parameter& item) {
  if (item.local.dim() > 0) return;
  refuse(job.resolved, kKey,
         text("'pp' does not support the parameter '{}', which is a scalar", item.name),
         "leave 'pp' out with this model");
}

}  // namespace

void check_pipeline(const RecipeOptions& recipe, const Node& resolved) {
  const AcceleratorSection& section = recipe.accelerator;
  if (section.parallelism.pp == 1) return;
  if (!recipe.train.micro_batch && !recipe.train.gradient_accumulation_steps) {
    refuse(resolved, kKey, "'pp' needs 'train.micro_batch': stages work on different micro-batches",
           "set it so that a step has at least twice as many micro-batches as 'pp'");
  }
  const bool recomputes = recipe.train.activation_checkpointing != ActivationCheckpointing::kNone;
  if (recomputes && splits_backward(section.pipeline.schedule)) {
    refuse(resolved, "train.activation_checkpointing",
           "'activation_checkpointing' does not support the schedules zbh1 and zbv, which would "
           "recompute each block twice",
           "set 'accelerator.pipeline.schedule' to 1f1b, or leave one of the two out");
  }
}

ModelStages divide_into_stages(const Job& job) {
  BlockChain& chain = chain_of(job);
  ModelStages out;
  out.blocks = at_place(recipe_place(job.resolved, "accelerator.parallelism.pp"),
                        [&] { return chain.chain(); });
  const at::Tensor tied = chain.tied_weight();
  const ChainParameters parameters = parameters_of_chain(job, out.blocks);
  const std::vector<double> costs = block_costs(parameters, out.blocks.size(), tied);
  out.blocks_per_stage = stage_sizes(job, costs);
  std::vector<int64_t> stage_of;  // by block
  for (size_t stage = 0; stage < out.blocks_per_stage.size(); ++stage) {
    stage_of.insert(stage_of.end(), static_cast<size_t>(out.blocks_per_stage[stage]),
                    static_cast<int64_t>(stage));
  }
  out.costs.resize(out.blocks_per_stage.size());
  for (size_t i = 0; i < costs.size(); ++i) {
    out.costs[static_cast<size_t>(stage_of[i])] += costs[i];
  }
  const auto blocks = static_cast<int64_t>(out.blocks.size());
  for (size_t i = 0; i < parameters.all.size(); ++i) {
    check_parameter(job, parameters.all[i]);
    const int64_t block = std::clamp<int64_t>(parameters.block[i], 0, blocks - 1);
    StageParameter item{parameters.all[i], stage_of[static_cast<size_t>(block)]};
    if (tied.defined() && item.parameter.local.is_same(tied)) item.also_read_by = stage_of.back();
    item.is_sharded = !is_absent(job, item.parameter) &&
                      divides_rows(job, item.parameter.name, item.parameter.local);
    out.parameters.push_back(std::move(item));
  }
  return out;
}

std::unique_ptr<Strategy> build_pipeline(const Job& job, uint64_t seed, const DdpOptions& ddp) {
  const PipelineSection& section = job.recipe.accelerator.pipeline;
  ModelStages stages = divide_into_stages(job);
  StageStrategy of_stages;
  if (job.recipe.accelerator.fsdp.stage > 0) {
    of_stages = [&job](const std::vector<Parameter>& own) { return build_stage_fsdp(job, own); };
  } else if (job.expert_ranks) {
    of_stages = [&job, ddp](const std::vector<Parameter>& own) {
      return build_stage_experts(job, own, ddp);
    };
  }
  return make_pipeline({.blocks = std::move(stages.blocks),
                        .blocks_per_stage = std::move(stages.blocks_per_stage),
                        .parameters = std::move(stages.parameters),
                        .mesh = job.mesh,
                        .device = job.device,
                        .loss = dynamic_cast<AuxiliaryLoss*>(job.model.get()),
                        .strategy_of_stages = std::move(of_stages)},
                       {section.schedule, section.stages_of_rank(), seed, ddp});
}

PipelineSchedule pipeline_schedule(const AcceleratorSection& section, int64_t micro_batches) {
  const PipelineKind kind = section.pipeline.schedule;
  return make_pipeline_schedule(
      kind, pipeline_layout(kind, section.parallelism.pp, section.pipeline.stages_of_rank()),
      micro_batches);
}

double pipeline_bubble(const PipelineSchedule& schedule, const std::vector<double>& costs) {
  std::vector<PassCosts> stages;
  for (const double cost : costs) stages.push_back({cost, cost, cost});
  return simulate(schedule, stages).bubble_share();
}

std::string pipeline_summary(const Job& job) {
  const AcceleratorSection& section = job.recipe.accelerator;
  const ModelStages stages = divide_into_stages(job);
  const double bubble =
      pipeline_bubble(pipeline_schedule(section, job.batches.accumulation), stages.costs);
  std::string sizes;
  for (const int64_t size : stages.blocks_per_stage) {
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  }
  return Codec<PipelineKind>::write(section.pipeline.schedule).scalar()->text + ", " +
         std::to_string(stages.blocks_per_stage.size()) + " stages of " + sizes +
         " blocks, bubble " + std::to_string(std::lround(100 * bubble)) + " % of a step";
}

}  // namespace accel
