#include "train/job/build_optimizers.h"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>

#include "core/api/auxiliary_loss.h"
#include "core/base/text.h"
#include "kernels/memory/deferred_init.h"
#include "kernels/memory/skip_init.h"
#include "models/hf/hf_family.h"
#include "models/hf/map_hf_weights.h"
#include "models/layers/module_state.h"
#include "models/layers/sampled_labels.h"
#include "models/placement/frozen_stream.h"
#include "parallel/expert_ranks.h"
#include "parallel/tensor_ranks.h"
#include "train/job/build_context_parallel.h"
#include "train/job/build_fp8.h"
#include "train/job/build_fsdp.h"
#include "train/job/build_strategy.h"
#include "train/job/build_streaming.h"
#include "train/job/build_tensor_parallel.h"
#include "train/job/check_quantization.h"
#include "train/job/library_errors.h"
#include "train/job/torch_setup.h"
#include "train/optim/evaluation_weights.h"
#include "train/optim/hessian_estimate.h"
#include "train/optim/joined_optimizer.h"

namespace accel {
namespace {

std::string prefix_of(const TaskModel& model) {
  return model.name + "/";
}

void check_model_names(const Job& job) {
  std::set<std::string> seen;
  for (const TaskModel& item : job.task_models) {
    const bool plain = !item.name.empty() && item.name.find('/') == item.name.npos;
    if (plain && seen.insert(item.name).second) continue;
    throw std::logic_error(
        text("the task '{}' has a model '{}': names must be unique and without '/'",
             job.recipe.task.type, item.name));
  }
}

const TaskModel& model_named(const Job& job, const std::string& name) {
  const auto found = std::find_if(job.task_models.begin(), job.task_models.end(),
                                  [&](const TaskModel& item) { return item.name == name; });
  if (found != job.task_models.end()) return *found;
  throw std::logic_error(text("the task '{}' has no model '{}'", job.recipe.task.type, name));
}

/// The models of one optimizer.
NamedModels models_of(const Job& job, const std::vector<std::string>& names) {
  NamedModels models;
  for (const std::string& name : names) {
    const TaskModel& item = model_named(job, name);
    models.emplace_back(prefix_of(item), item.model);
  }
  return models;
}

/// The models' tensors that are trained.
std::vector<Parameter> trained_parameters(const Job& job, const NamedModels& models) {
  std::vector<Parameter> parameters;
  for (const auto& [prefix, model] : models) add_named(parameters, prefix, parameters_of(*model));
  std::erase_if(parameters, [](const Parameter& item) { return !item.local.requires_grad(); });
  place_tensors(job, parameters);
  return parameters;
}

/// Freezes the task's models that no optimizer trains, and returns them.
NamedModels freeze_others(Job& job, const std::set<std::string>& trained) {
  job.trainable_models = {job.model.get()};
  NamedModels frozen;
  for (const TaskModel& item : job.task_models) {
    if (trained.contains(item.name)) {
      job.trainable_models.push_back(item.model);
      continue;
    }
    set_training(*item.model, false);
    for (const Parameter& parameter : parameters_of(*item.model)) {
      parameter.local.set_requires_grad(false);
    }
    frozen.emplace_back(prefix_of(item), item.model);
  }
  return frozen;
}

/// The names of the models that the task's optimizers train.
std::set<std::string> trained_models(const Job& job, const std::vector<TaskOptimizer>& optimizers) {
  std::set<std::string> trained;
  for (const TaskOptimizer& item : optimizers) {
    for (const std::string& name : item.models) {
      if (trained.insert(name).second) continue;
      throw std::logic_error(
          text("two optimizers of the task '{}' train the model '{}'", job.recipe.task.type, name));
    }
  }
  return trained;
}

/// Those of the recipe's optimizer, whose strategy also gathers the blocks of frozen models.
NamedModels models_of_recipe(const Job& job, const NamedModels& frozen) {
  NamedModels models = {{"", job.model.get()}};
  if (gathers_in_passes(job)) {
    models.insert(models.end(), frozen.begin(), frozen.end());
    return models;
  }
  for (const auto& [prefix, model] : frozen) {
    for (const Parameter& parameter : parameters_of(*model)) materialize(parameter.local);
  }
  return models;
}

bool holds_component(const Node& node) {
  if (node.list()) return std::any_of(node.list()->begin(), node.list()->end(), &holds_component);
  if (!node.map()) return false;
  return std::any_of(node.map()->begin(), node.map()->end(), [](const Node::Entry& entry) {
    return entry.node.find("type") != nullptr || holds_component(entry.node);
  });
}

/// Whether the initialization of weights can be skipped because a checkpoint replaces them: with
/// one rank, no plugin component, which may keep random numbers, and no other model, which would
/// use the random numbers after this one's.
bool can_skip_init(const Job& job) {
  return job.num_ranks == 1 && job.recipe.plugin_identities.empty() &&
         !holds_component(job.recipe.task.resolved);
}

bool names_plugin(const Node& node) {
  if (node.list()) return std::any_of(node.list()->begin(), node.list()->end(), &names_plugin);
  if (!node.map()) return false;
  return std::any_of(node.map()->begin(), node.map()->end(), [](const Node::Entry& entry) {
    const Scalar* type = entry.key == "type" ? entry.node.scalar() : nullptr;
    return (type && is_vendor_name(type->text)) || names_plugin(entry.node);
  });
}

bool is_sharded(const Job& job) {
  return job.recipe.accelerator.fsdp.stage > 0;
}

/// Whether weights are initialized block by block when they are divided over the ranks. The models
/// of plugins may access the memory of their weights at once.
bool can_defer_init(const Job& job) {
  const bool is_divided =
      is_sharded(job) || job.tensor_ranks || job.expert_ranks || job.mesh.pipeline->world() > 1;
  return is_divided && !job.weights_uninitialized && !names_plugin(job.recipe.model.resolved) &&
         !names_plugin(job.recipe.task.resolved);
}

/// Moves a model to the job's device. Deferred weights stay so.
void move_model(Model& model, const Job& job) {
  if (job.device.is_cpu()) return;
  for (const Parameter& item : parameters_of(model)) {
    if (is_deferred(item.local)) move_deferred(item.local, job.device);
  }
  move_to(model, job.device);
}

/// The recipe's model, without initialization of weights that a checkpoint will replace.
std::unique_ptr<Model> built_model(const Job& job) {
  std::optional<SkipInit> skip;
  if (job.weights_uninitialized) skip.emplace();
  const Ref<Model>& model = job.recipe.model;
  try {
    return build(model, ModelContext{job.data, job.tensor_ranks, job.expert_ranks});
  } catch (const std::exception& error) {
    check_size_failure(error, text("the model '{}'", model.type), job.resolved, "model");
    throw;
  }
}

/// Other averages of weights cannot be combined with those of an optimizer.
void check_evaluation_weights(const Job& job, const Optimizer& optimizer,
                              const Ref<Optimizer>& component) {
  if (!dynamic_cast<const EvaluationWeights*>(&optimizer)) return;
  const auto& callbacks = job.recipe.callbacks;
  const bool has_ema =
      std::any_of(callbacks.begin(), callbacks.end(),
                  [](const Ref<Callback>& callback) { return callback.type == "ema"; });
  const char* const other = has_ema                                  ? "the callback 'ema'"
                            : job.recipe.accelerator.local_sgd.every ? "'local_sgd'"
                                                                     : nullptr;
  if (!other) return;
  throw RecipeError({{component.resolved.where,
                      text("the optimizer '{}' averages weights for evaluations, and {} would "
                           "average others",
                           component.type, other),
                      text("leave {} out, or use adamw", other)}});
}

/// The option under which passes of sampled labels would not be those of a plain update; "": none.
std::string without_estimates(const Job& job) {
  const AcceleratorSection& section = job.recipe.accelerator;
  const ParallelismSection& axes = section.parallelism;
  if (section.mixed_precision == MixedPrecision::kFp16) return "'mixed_precision: fp16'";
  if (section.mixed_precision == MixedPrecision::kFp8) return "'mixed_precision: fp8'";
  if (section.local_sgd.every) return "'local_sgd'";
  if (section.ddp.comm_hook == CommHook::kPowerSgd) return "'comm_hook: power_sgd'";
  if (axes.pp > 1) return "'pp'";
  if (axes.tp > 1) return "'tp'";
  if (axes.cp > 1) return "'cp'";
  if (axes.sp > 1) return "'sp'";
  if (dynamic_cast<const AuxiliaryLoss*>(job.model.get())) {
    const auto* experts = dynamic_cast<const ExpertParallel*>(job.model.get());
    if (!experts || experts->num_experts() > 0) return "a model with an auxiliary loss";
  }
  const auto* task = dynamic_cast<const SamplesLabels*>(job.task.get());
  const std::string option = task ? task->prevents_sampling() : "";
  return option.empty() ? "" : text("'{}' of the task '{}'", option, job.recipe.task.type);
}

/// An estimate of the Hessian needs labels that the task samples from the recipe's model.
void check_hessian_estimate(const Job& job, const OptimizerBinding& binding,
                            const Ref<Optimizer>& component) {
  if (!dynamic_cast<const UsesHessianEstimate*>(binding.optimizer)) return;
  const Span& where = component.resolved.where;
  const bool is_recipes = binding.name == kRecipeOptimizer;
  if (!is_recipes || !dynamic_cast<const SamplesLabels*>(job.task.get())) {
    throw RecipeError(
        {{where,
          text("the optimizer '{}' needs labels sampled from the model's logits, which the task "
               "'{}' does not have",
               component.type, job.recipe.task.type),
          "use adamw; the tasks causal_lm, masked_lm, classification and token_classification have "
          "such labels"}});
  }
  const std::string other = without_estimates(job);
  if (other.empty()) return;
  throw RecipeError(
      {{where,
        text("the optimizer '{}' estimates the Hessian, which is not supported with {}",
             component.type, other),
        text("leave {} out, or use adamw", other)}});
}

void make_models(Job& job, const Registry& registry, bool is_estimate) {
  std::optional<DeferredInit> deferred;
  std::optional<MapHfWeights> mapped;
  const bool maps = keeps_frozen_in_folder(job.recipe) && !is_estimate;
  if (maps) mapped.emplace();
  if (maps || can_defer_init(job)) deferred.emplace();
  job.model = built_model(job);
  mapped.reset();
  build_frozen_stream(job, is_estimate);
  std::vector<at::Tensor> divided = divide_model(job);
  if (!job.recipe.task) {
    Diagnostics problems;
    Reading reading{problems, registry};
    job.recipe.task = registry.of<Task>().prepare(scalar_node(job.model->default_task()), reading);
    problems.check();
  }
  job.task = build(job.recipe.task, TaskContext{job.data});
  job.task_models = job.task->models();
  if (!deferred) return;
  if (job.frozen_stream) {
    for (const at::Tensor& source : job.frozen_stream->sources()) divided.push_back(source);
  }
  if (is_sharded(job) || job.mesh.pipeline->world() > 1) {
    for (const Parameter& item : parameters_of(*job.model)) divided.push_back(item.local);
    for (const TaskModel& model : job.task_models) {
      for (const Parameter& item : parameters_of(*model.model)) divided.push_back(item.local);
    }
  }
  deferred->materialize_except(divided);
}

}  // namespace

void build_models(Job& job, const Registry& registry, bool is_estimate) {
  seed_generator(static_cast<uint64_t>(job.recipe.seed));
  job.weights_fingerprint = at_place(job.recipe.model.resolved.where, [&] {
    return weights_fingerprint(job.recipe.model.resolved) +
           weights_fingerprint(job.recipe.task.resolved);
  });
  job.weights_uninitialized = job.weights_uninitialized && can_skip_init(job);
  if (job.mesh.tensor->world() > 1) {
    job.tensor_ranks =
        make_tensor_ranks(job.mesh.tensor, job.recipe.accelerator.parallelism.sequence_parallel);
  }
  if (job.mesh.expert->world() > 1) job.expert_ranks = make_expert_ranks(job.mesh.expert);
  make_models(job, registry, is_estimate);
  divide_sequences(job);
  check_model_names(job);
  // After the initialization, which is the same for every device.
  move_model(*job.model, job);
  for (const TaskModel& item : job.task_models) move_model(*item.model, job);
  add_named(job.parameters, "", parameters_of(*job.model));
  if (keeps_frozen_in_folder(job.recipe)) {
    std::erase_if(job.parameters,
                  [](const Parameter& item) { return !item.local.requires_grad(); });
  }
  place_tensors(job, job.parameters);
  add_named(job.buffers, "", buffers_of(*job.model));
  for (const TaskModel& item : job.task_models) {
    if (!item.in_checkpoints) continue;
    add_named(job.parameters, prefix_of(item), parameters_of(*item.model));
    add_named(job.buffers, prefix_of(item), buffers_of(*item.model));
  }
}

void build_trained(Job& job) {
  check_trains_adapter(job);
  job.precision = make_precision(job.recipe.accelerator.mixed_precision, job.device,
                                 job.recipe.accelerator.grad_scaler);
  prepare_sharing(job);
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  const auto add = [&](const std::string& name, const NamedModels& models,
                       const Ref<Optimizer>& component) {
    OptimizerBinding binding{.name = name, .leaves = trained_parameters(job, models)};
    binding.strategy = build_strategy(job, models, job.optimizers.size());
    binding.parameters = binding.strategy->shards_of(binding.leaves);
    optimizers.push_back(
        build(component, OptimizerContext{binding.parameters, shard_exchange(job), job.swapper}));
    binding.optimizer = optimizers.back().get();
    check_shards(job, *binding.optimizer, component.type, component.resolved.where);
    check_swapping(job, *binding.optimizer, component.type, component.resolved.where);
    check_evaluation_weights(job, *binding.optimizer, component);
    check_hessian_estimate(job, binding, component);
    // Before anything is written: the disk may be full.
    if (job.swapper) binding.optimizer->preallocate_state();
    job.parameters = binding.strategy->shards_of(std::move(job.parameters));
    job.optimizers.push_back(std::move(binding));
  };
  const std::vector<TaskOptimizer> of_task = job.task->optimizers();
  const NamedModels frozen = freeze_others(job, trained_models(job, of_task));
  build_fp8(job);
  add(kRecipeOptimizer, models_of_recipe(job, frozen), job.recipe.optimizer);
  for (const TaskOptimizer& item : of_task) {
    add(item.name, models_of(job, item.models), item.component);
  }
  job.optimizer = std::make_unique<JoinedOptimizer>(std::move(optimizers));
}

void rebuild_optimizer(Job& job) {
  OptimizerBinding& binding = job.optimizers.front();
  const OptimizerState state = job.optimizer->state();
  auto fresh = build(job.recipe.optimizer,
                     OptimizerContext{binding.parameters, shard_exchange(job), job.swapper});
  binding.optimizer = fresh.get();
  job.optimizer->replace(0, std::move(fresh));
  job.optimizer->load(state);
}

}  // namespace accel
