#include "train/job/build_expert_parallel.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"
#include "parallel/expert_strategy.h"

namespace accel {
namespace {

constexpr auto kExpertRanksOption = "accelerator.parallelism.ep";

const ExpertParallel& experts_of(const Job& job) {
  const auto* model = dynamic_cast<const ExpertParallel*>(job.model.get());
  if (model && model->num_experts() > 0) return *model;
  throw Error(ExitCode::kRecipe,
              text("'ep' has no effect: the model '{}' has no experts", job.recipe.model.type),
              "use llama with 'moe', or leave 'ep' out");
}

}  // namespace

void check_expert_mesh(const Node& resolved, const MeshSizes& sizes) {
  const auto refuse = [&](const std::string& message, const std::string& hint) {
    throw RecipeError({{recipe_place(resolved, kExpertRanksOption), message, hint}});
  };
  const bool has_context = sizes.context > 1;
  if (sizes.gradients() % sizes.expert != 0) {
    const std::string ranks = text("{} data parallel{} ranks", sizes.gradients(),
                                   has_context ? " and context parallel" : "");
    refuse(text("'ep' {} does not divide the {}", sizes.expert, ranks),
           text("use a divisor of dp_replicate x dp_shard{}", has_context ? " x cp x sp" : ""));
  }
  if (sizes.all_shard() % sizes.expert != 0 && sizes.expert % sizes.all_shard() != 0) {
    const std::string shards = has_context ? text("dp_shard x cp x sp, {}", sizes.all_shard())
                                           : text("'dp_shard' {}", sizes.all_shard());
    refuse(text("'ep' {} is neither a divisor nor a multiple of {}", sizes.expert, shards),
           "use a divisor or a multiple of it");
  }
}

void place_experts(Job& job, const std::vector<Parameter>& parameters) {
  const ExpertParallel& model = experts_of(job);
  const int64_t ranks = job.expert_ranks->size(), experts = model.num_experts();
  if (experts % ranks != 0) {
    throw Error(ExitCode::kRecipe,
                text("'ep' {} does not divide the model's 'num_experts' {}", ranks, experts),
                "use a divisor of it");
  }
  const int64_t each = job.expert_ranks->experts_per_rank(experts);
  for (const Parameter& item : parameters) {
    const std::optional<int64_t> expert = model.expert_of(item.name);
    if (!expert) continue;
    TensorCut& cut = job.tensor_cuts[item.name];
    cut.global = item.local.sizes().vec();
    cut.placements.push_back({.axis = Axis::kExpert, .dim = 0, .owner = *expert / each});
  }
}

bool is_of_expert(const Parameter& parameter) {
  return std::ranges::any_of(parameter.placements, [](const Placement& placement) {
    return placement.axis == Axis::kExpert;
  });
}

bool is_absent(const Job& job, const Parameter& parameter) {
  return std::ranges::any_of(parameter.placements, [&](const Placement& placement) {
    return placement.axis == Axis::kExpert && placement.owner != job.mesh.expert->rank();
  });
}

std::unique_ptr<Strategy> with_experts(const Job& job, std::unique_ptr<Strategy> others,
                                       const std::vector<Parameter>& trained, const DdpOptions& ddp,
                                       bool reduces) {
  ExpertStrategies strategies;
  strategies.others = std::move(others);
  if (!reduces && job.mesh.expert_data->world() > 1) {
    std::vector<Parameter> own = trained;
    std::erase_if(
        own, [&](const Parameter& item) { return !is_of_expert(item) || is_absent(job, item); });
    DdpOptions without_buffers = ddp;
    without_buffers.broadcast_buffers = false;
    strategies.experts =
        make_ddp({std::move(own), {}, job.mesh.expert_data.get()}, without_buffers);
  }
  return make_expert_parallel(std::move(strategies), trained, job.mesh.expert);
}

std::unique_ptr<Strategy> build_stage_experts(const Job& job, const std::vector<Parameter>& own,
                                              const DdpOptions& ddp) {
  std::vector<Parameter> trained = own, others;
  std::erase_if(trained, [](const Parameter& item) { return !item.local.requires_grad(); });
  for (const Parameter& item : trained) {
    if (!is_of_expert(item)) others.push_back(item);
  }
  Communicator& group = *job.mesh.gradients;
  return with_experts(job, group.world() == 1 ? make_single() : make_ddp({others, {}, &group}, ddp),
                      trained, ddp, /*reduces=*/false);
}

std::string expert_summary(const Job& job) {
  const int64_t experts = experts_of(job).num_experts(), copies = job.mesh.expert_data->world();
  std::string out = text("{} of {} experts of a layer per rank",
                         job.expert_ranks->experts_per_rank(experts), experts);
  if (copies > 1) out += text(", each on {} ranks", copies);
  const int64_t stride = job.mesh.tensor->world();
  const int64_t last = stride * (job.expert_ranks->size() - 1);
  out += text("; ranks 0 and {}", stride);
  if (last > stride) out += text(" to {}", last);
  return out + " exchange tokens";
}

}  // namespace accel
