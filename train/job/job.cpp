#include "train/job/job.h"

#include <algorithm>

#include "core/base/text.h"

namespace accel {

Span recipe_place(const Node& tree, const std::string& path) {
  const Node* node = &tree;
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const Node::Entry* entry = node->find(path.substr(begin, end - begin));
    if (!entry) break;
    node = &entry->node;
    begin = end + 1;
  }
  return node->where;
}

BatchPlan plan_batches(const TrainSection& train, int64_t world) {
  const std::string ranks = std::to_string(world) + (world == 1 ? " rank" : " ranks");
  BatchPlan plan;
  plan.batch = train.batch;
  plan.world = world;
  if (train.micro_batch && train.gradient_accumulation_steps) {
    plan.micro_batch = *train.micro_batch;
    plan.accumulation = *train.gradient_accumulation_steps;
    if (plan.micro_batch * plan.accumulation * world == plan.batch) return plan;
    throw Error(ExitCode::kRecipe,
                text("batch {} is not {} micro x {} accumulated x {}", plan.batch, plan.micro_batch,
                     plan.accumulation, ranks),
                "leave one of the three out: it follows from the others");
  }
  const int64_t given = train.micro_batch.value_or(train.gradient_accumulation_steps.value_or(1));
  if (plan.batch % (given * world) != 0) {
    std::string by = ranks;
    if (train.micro_batch) by += text(" of micro_batch {}", given);
    if (train.gradient_accumulation_steps) by += text(" with {} accumulated", given);
    throw Error(ExitCode::kRecipe, text("batch {} cannot be shared by {}", plan.batch, by),
                "'batch' counts the samples of all ranks: make it a multiple");
  }
  const int64_t other = plan.batch / (given * world);
  plan.micro_batch = train.micro_batch ? given : other;
  plan.accumulation = train.micro_batch ? other : given;
  return plan;
}

UnshardedScope::UnshardedScope(const Job& job) : job_(job) {
  for (const OptimizerBinding& binding : job_.optimizers) binding.strategy->unshard();
}

UnshardedScope::~UnshardedScope() {
  for (const OptimizerBinding& binding : job_.optimizers) binding.strategy->reshard();
}

bool gathers_in_passes(const Job& job) {
  return job.recipe.accelerator.fsdp.stage == 3;
}

bool data_ranks_communicate_in_passes(const Job& job) {
  return gathers_in_passes(job) || job.recipe.accelerator.parallelism.ep > 1;
}

bool communicates_in_passes(const Job& job) {
  return data_ranks_communicate_in_passes(job) || job.recipe.accelerator.parallelism.tp > 1 ||
         job.mesh.pipeline->world() > 1 || job.mesh.context->world() > 1;
}

bool fills_idle_ranks(const Job& job) {
  const AcceleratorSection& section = job.recipe.accelerator;
  if (section.sync_batch_norm)
    return false;  // its ranks have samples: see LoaderOptions::all_ranks
  return (section.fsdp.stage > 0 || section.parallelism.ep > 1) &&
         !job.recipe.data.loader.even_batches;
}

bool syncs_gradients(const Job& job) {
  return job.optimizers.front().strategy->syncs_gradients();
}

std::vector<std::string> names_of(const std::vector<std::pair<std::string, bool>>& metrics) {
  std::vector<std::string> names;
  for (const auto& [name, higher] : metrics) names.push_back(name);
  return names;
}

}  // namespace accel
