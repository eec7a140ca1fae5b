#include "runner/job/job.h"

#include <algorithm>

#include "models/fixed_model.h"
#include "models/freeze.h"
#include "models/recompute.h"
#include "runner/job/build_data.h"
#include "runner/job/build_strategy.h"
#include "runner/job/build_trained.h"
#include "runner/job/model_fit.h"
#include "runner/job/model_texts.h"
#include "runner/job/tensor_memory.h"
#include "runner/job/torch_setup.h"
#include "runner/optim/phased_schedule.h"
#include "runner/plugin/manifest.h"

namespace accel {
namespace {

[[noreturn]] void refuse(const Job& job, const std::string& path, const std::string& message,
                         std::string hint = {}) {
  throw RecipeError({{recipe_place(job.resolved, path), message, std::move(hint)}});
}

/// Steps of the whole run; 0 when only the clock ends it.
int64_t total_steps(const Job& job) {
  ScheduleContext known = job.length;
  int64_t total = 0;
  for (const Duration& until : job.recipe.train.until) {
    if (until.unit == Duration::Unit::kSeconds) continue;
    if (until.unit == Duration::Unit::kPercent) {
      refuse(job, "train.until", "'until' cannot be a share of itself",
             "give steps, epochs, samples, tokens or a time");
    }
    int64_t steps = 0;
    try {
      steps = known.steps(until);
    } catch (const std::invalid_argument& e) {
      refuse(job, "train.until", e.what(), "give steps or epochs");
    }
    if (steps < 1) refuse(job, "train.until", "'" + to_string(until) + "' is less than one step");
    total = total == 0 ? steps : std::min(total, steps);
  }
  return total;
}

void plan_length(Job& job) {
  job.length.steps_per_epoch = job.train_loader->steps_per_epoch();
  job.length.samples_per_step = job.batches.batch;
  // Where samples differ in length, a step has no fixed number of tokens.
  const bool tokens = job.data.vocab > 0 && !job.data.input.empty() && !job.data.padding;
  job.length.tokens_per_step = tokens ? job.batches.batch * job.data.input.back() : 0;
  if (job.recipe.train.until.empty()) refuse(job, "train.until", "'until' is never reached");
  job.length.total_steps = total_steps(job);
}

/// What is compiled already takes no other device and no other types.
void check_fixed(const Job& job) {
  if (!dynamic_cast<const FixedModel*>(job.model.get())) return;
  const std::string model = "the model '" + job.recipe.model.type + "' ";
  if (job.device != at::kCPU) {
    refuse(job, "accelerator.device", model + "was compiled for the CPU", "add 'device: cpu'");
  }
  if (job.recipe.accelerator.mixed_precision == MixedPrecision::kNo) return;
  refuse(job, "accelerator.mixed_precision",
         model + "computes in the types it was compiled for, which 'mixed_precision' cannot change",
         "leave 'mixed_precision' out, or take the model 'exported'");
}

/// What of the model is trained, and how its backward pass goes.
void prepare_training(const Job& job) {
  check_fixed(job);
  const TrainSection& train = job.recipe.train;
  freeze_parameters(*job.model, train.freeze, recipe_place(job.resolved, "train.freeze"));
  const bool recompute = train.activation_checkpointing == ActivationCheckpointing::kBlocks;
  if (recompute && recompute_blocks(*job.model) == 0) {
    refuse(job, "train.activation_checkpointing",
           "the model '" + job.recipe.model.type + "' has no blocks to compute again",
           "leave 'activation_checkpointing' out");
  }
}

void build_schedule(Job& job) {
  std::vector<PhasePlan> phases;
  for (const SchedulePhase& phase : job.recipe.scheduler.phases) {
    phases.push_back({phase.component, phase.extra.duration});
  }
  job.schedule = at_place(recipe_place(job.resolved, "scheduler"),
                          [&] { return make_schedule(phases, job.length); });
}

/// Metric names are values of the recipe: a wrong one is found here and not at the first eval.
void check_metric_names(const Job& job) {
  Diagnostics problems;
  const std::vector<std::string> names = names_of(job.metric_names);
  const auto check = [&](const std::string& name, const std::string& path) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    std::string hint = did_you_mean(name, names);
    if (hint.empty()) hint = names.empty() ? "the recipe has no eval data" : "there is " + names[0];
    problems.error(recipe_place(job.resolved, path), "no metric is named '" + name + "'", hint);
  };
  const KeepSection& keep = job.recipe.checkpoint.keep;
  if (keep.best > 0) check(keep.by, "checkpoint.keep.by");
  if (!job.schedule->watches().empty()) check(job.schedule->watches(), "scheduler.metric");
  for (const auto& [name, bound] : job.recipe.expect) {
    if (name != "train/loss") check(name, "expect." + name);
  }
  problems.check();
}

/// A window that no step of the run is in; where the clock ends it, the loop will tell.
void check_profiled(const Job& job) {
  const std::vector<int64_t>& steps = job.recipe.profile.steps;
  const int64_t last = job.length.total_steps;
  if (steps.empty() || last == 0 || steps.front() <= last) return;
  Diagnostics problems;
  problems.error(recipe_place(job.resolved, "profile.steps"),
                 "'profile.steps' begins with step " + std::to_string(steps.front()) +
                     ", and the run ends with step " + std::to_string(last),
                 "name steps that it makes, or let 'train.until' be later");
  problems.check();
}

void build_callbacks(Job& job) {
  if (job.recipe.callbacks.empty()) return;
  const CallbackContext context{.parameters = job.parameters,
                                .buffers = job.buffers,
                                .metrics = names_of(job.metric_names),
                                .length = job.length,
                                .texts = texts_of(*job.model, job.resolved, job.data)};
  for (const Ref<Callback>& ref : job.recipe.callbacks) {
    job.callbacks.push_back(build(ref, context));
  }
}

}  // namespace

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
  const std::string batch = "batch " + std::to_string(train.batch);
  const std::string ranks = std::to_string(world) + (world == 1 ? " rank" : " ranks");
  BatchPlan plan;
  plan.batch = train.batch;
  plan.world = world;
  if (train.micro_batch && train.gradient_accumulation_steps) {
    plan.micro_batch = *train.micro_batch;
    plan.accumulation = *train.gradient_accumulation_steps;
    if (plan.micro_batch * plan.accumulation * world == plan.batch) return plan;
    throw Error(ExitCode::kRecipe,
                batch + " is not " + std::to_string(plan.micro_batch) + " micro x " +
                    std::to_string(plan.accumulation) + " accumulated x " + ranks,
                "leave one of the three out: it follows from the others");
  }
  const int64_t given = train.micro_batch.value_or(train.gradient_accumulation_steps.value_or(1));
  if (plan.batch % (given * world) != 0) {
    std::string by = ranks;
    if (train.micro_batch) by += " of micro_batch " + std::to_string(given);
    if (train.gradient_accumulation_steps) by += " with " + std::to_string(given) + " accumulated";
    throw Error(ExitCode::kRecipe, batch + " cannot be shared by " + by,
                "'batch' counts the samples of all ranks: make it a multiple");
  }
  const int64_t other = plan.batch / (given * world);
  plan.micro_batch = train.micro_batch ? given : other;
  plan.accumulation = train.micro_batch ? other : given;
  return plan;
}

void build_metrics(Job& job, const Registry& registry) {
  if (!job.eval_loader) return;
  std::vector<Ref<Metric>> refs = job.recipe.eval.metrics;
  Diagnostics problems;
  Reading reading{problems, registry};
  if (refs.empty()) {
    for (const std::string& name : job.task->default_metrics()) {
      refs.push_back(registry.of<Metric>().prepare(scalar_node(name), reading));
    }
    job.recipe.eval.metrics = refs;
  }
  const std::vector<std::string> fitting = job.task->metrics();
  job.metric_names.emplace_back("eval/loss", false);
  for (const Ref<Metric>& ref : refs) {
    // No task can know of a plugin's metric, which looks at the output for itself.
    const bool known = !is_vendor_name(ref.type);
    if (known && std::find(fitting.begin(), fitting.end(), ref.type) == fitting.end()) {
      problems.error(
          ref.resolved.where,
          "the metric '" + ref.type + "' does not fit the task '" + job.recipe.task.type + "'",
          "it has " + detail::inline_text(Codec<std::vector<std::string>>::write(fitting)));
      continue;
    }
    job.metrics.push_back(build(ref, MetricContext{job.data}));
    for (const auto& [name, value] : job.metrics.back()->values()) {
      job.metric_names.emplace_back("eval/" + name, job.metrics.back()->higher_is_better());
    }
  }
  problems.check();
}

bool is_local(const Job& job) {
  return job.trained.front().strategy->is_local();
}

std::vector<std::string> names_of(const std::vector<std::pair<std::string, bool>>& metrics) {
  std::vector<std::string> names;
  for (const auto& [name, higher] : metrics) names.push_back(name);
  return names;
}

std::unique_ptr<Job> build_job(RecipeOptions recipe, Node resolved, const Registry& registry,
                               const World& world) {
  auto job = std::make_unique<Job>();
  job->registry = registry;
  job->group = world.group;
  job->watch = world.watch;
  job->device = world.device;
  job->is_undrawn = world.has_checkpoint;
  job->recipe = std::move(recipe);
  job->resolved = std::move(resolved);
  check_sharing(job->recipe, job->resolved, world.group->world());
  job->batches =
      plan_batches(shared_train(job->recipe, world.group->world()), world.group->world());
  keep_freed_memory();
  use_kernels(job->recipe.accelerator.kernels);
  set_threads(threads_of(job->recipe.accelerator, world.local_world));
  set_deterministic(job->recipe.train.deterministic);
  build_data(*job);
  plan_length(*job);
  check_profiled(*job);
  build_models(*job, registry);
  check_task_fits(*job);
  check_eval_data_fits(*job);
  prepare_training(*job);
  seed_rank(*job, 0);
  build_trained(*job);
  build_schedule(*job);
  build_metrics(*job, registry);
  check_metric_names(*job);
  // Once more, with what the model and its task have chosen.
  job->resolved = resolve_recipe(job->recipe, job->resolved);
  build_callbacks(*job);
  return job;
}

}  // namespace accel
