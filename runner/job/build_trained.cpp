#include "runner/job/build_trained.h"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>

#include "models/hf_family.h"
#include "models/module_state.h"
#include "models/undrawn_weights.h"
#include "runner/job/build_strategy.h"
#include "runner/job/torch_setup.h"
#include "runner/optim/joined_optimizer.h"

namespace accel {
namespace {

/// Appends under the names that the job knows them by.
void add_named(std::vector<NamedTensor>& out, const std::string& prefix,
               const std::vector<NamedTensor>& tensors) {
  for (const NamedTensor& item : tensors) out.push_back({prefix + item.name, item.tensor});
}

std::string prefix_of(const TaskModel& model) {
  return model.name + "/";
}

void check_model_names(const Job& job) {
  std::set<std::string> seen;
  for (const TaskModel& item : job.task_models) {
    const bool plain = !item.name.empty() && item.name.find('/') == item.name.npos;
    if (plain && seen.insert(item.name).second) continue;
    throw std::logic_error("the task '" + job.recipe.task.type + "' calls a model '" + item.name +
                           "', which is no name of its own");
  }
}

const TaskModel& model_named(const Job& job, const std::string& name) {
  const auto found = std::find_if(job.task_models.begin(), job.task_models.end(),
                                  [&](const TaskModel& item) { return item.name == name; });
  if (found != job.task_models.end()) return *found;
  throw std::logic_error("the task '" + job.recipe.task.type + "' has no model '" + name + "'");
}

/// What one optimizer is to act on.
StrategyContext whole_of(const Job& job, const std::vector<std::string>& models) {
  StrategyContext out{{}, {}, job.group.get()};
  for (const std::string& name : models) {
    const TaskModel& item = model_named(job, name);
    add_named(out.parameters, prefix_of(item), parameters_of(*item.model));
    add_named(out.buffers, prefix_of(item), buffers_of(*item.model));
  }
  return out;
}

void keep_trained(std::vector<NamedTensor>& parameters) {
  std::erase_if(parameters, [](const NamedTensor& item) { return !item.tensor.requires_grad(); });
}

/// Models of the task that no optimizer has stay as they are.
void freeze_others(Job& job, const std::set<std::string>& trained) {
  job.learning = {job.model.get()};
  for (const TaskModel& item : job.task_models) {
    if (trained.contains(item.name)) {
      job.learning.push_back(item.model);
      continue;
    }
    set_training(*item.model, false);
    for (const NamedTensor& parameter : parameters_of(*item.model)) {
      parameter.tensor.set_requires_grad(false);
    }
  }
}

bool holds_component(const Node& node) {
  if (node.list()) return std::any_of(node.list()->begin(), node.list()->end(), &holds_component);
  if (!node.map()) return false;
  return std::any_of(node.map()->begin(), node.map()->end(), [](const Node::Entry& entry) {
    return entry.node.find("type") != nullptr || holds_component(entry.node);
  });
}

/// Whether nothing but a checkpoint's tensors needs what the model draws: no other rank, no
/// component of a plugin, which may keep what it has drawn, and no other model, which draws after
/// this one.
bool may_be_undrawn(const Job& job) {
  return job.group->world() == 1 && job.recipe.plugin_identities.empty() &&
         !holds_component(job.recipe.task.resolved);
}

/// The recipe's model, whose weights are drawn if anyone is to see them.
std::unique_ptr<Model> built_model(const Job& job) {
  std::optional<UndrawnWeights> undrawn;
  if (job.is_undrawn) undrawn.emplace();
  return build(job.recipe.model, ModelContext{job.data});
}

}  // namespace

void build_models(Job& job, const Registry& registry) {
  seed_generator(static_cast<uint64_t>(job.recipe.seed));
  job.weights_fingerprint = at_place(job.recipe.model.resolved.where, [&] {
    return weights_fingerprint(job.recipe.model.resolved) +
           weights_fingerprint(job.recipe.task.resolved);
  });
  job.is_undrawn = job.is_undrawn && may_be_undrawn(job);
  job.model = built_model(job);
  // After it has drawn its weights: they are the same for every device.
  if (!job.device.is_cpu()) move_to(*job.model, job.device);
  if (!job.recipe.task) {
    Diagnostics problems;
    Reading reading{problems, registry};
    job.recipe.task = registry.of<Task>().prepare(scalar_node(job.model->default_task()), reading);
    problems.check();
  }
  job.task = build(job.recipe.task, TaskContext{job.data});
  job.task_models = job.task->models();
  check_model_names(job);
  for (const TaskModel& item : job.task_models) {
    if (!job.device.is_cpu()) move_to(*item.model, job.device);
  }
  add_named(job.parameters, "", parameters_of(*job.model));
  add_named(job.buffers, "", buffers_of(*job.model));
  for (const TaskModel& item : job.task_models) {
    if (!item.in_checkpoints) continue;
    add_named(job.parameters, prefix_of(item), parameters_of(*item.model));
    add_named(job.buffers, prefix_of(item), buffers_of(*item.model));
  }
}

void build_trained(Job& job) {
  job.precision = make_precision(job.recipe.accelerator.mixed_precision, job.device,
                                 job.recipe.accelerator.grad_scaler);
  prepare_sharing(job);
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  const auto add = [&](const std::string& name, StrategyContext context,
                       const Ref<Optimizer>& component) {
    keep_trained(context.parameters);
    auto strategy = build_strategy(job, context, job.trained.size());
    optimizers.push_back(build(component, OptimizerContext{context.parameters}));
    job.trained.push_back(
        {name, std::move(context.parameters), std::move(strategy), optimizers.back().get()});
  };
  add(kRecipeOptimizer, {parameters_of(*job.model), buffers_of(*job.model), job.group.get()},
      job.recipe.optimizer);
  std::set<std::string> trained;
  for (const TaskOptimizer& item : job.task->optimizers()) {
    for (const std::string& name : item.models) {
      if (trained.insert(name).second) continue;
      throw std::logic_error("two optimizers of the task '" + job.recipe.task.type +
                             "' train the model '" + name + "'");
    }
    add(item.name, whole_of(job, item.models), item.component);
  }
  freeze_others(job, trained);
  job.optimizer = std::make_unique<JoinedOptimizer>(std::move(optimizers));
}

void rebuild_optimizer(Job& job) {
  TrainedPart& part = job.trained.front();
  const OptimizerState state = job.optimizer->state();
  auto fresh = build(job.recipe.optimizer, OptimizerContext{part.parameters});
  part.optimizer = fresh.get();
  job.optimizer->replace(0, std::move(fresh));
  job.optimizer->load(state);
}

}  // namespace accel
