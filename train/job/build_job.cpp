#include "train/job/build_job.h"

#include <algorithm>

#include "core/api/plugin_identity.h"
#include "core/base/activity.h"
#include "core/base/text.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/module_state.h"
#include "models/layers/offloaded_inputs.h"
#include "models/program/precompiled_model.h"
#include "train/job/build_answers.h"
#include "train/job/build_completions.h"
#include "train/job/build_data.h"
#include "train/job/build_fsdp.h"
#include "train/job/build_margins.h"
#include "train/job/build_optimizers.h"
#include "train/job/build_strategy.h"
#include "train/job/build_streaming.h"
#include "train/job/device.h"
#include "train/job/model_fit.h"
#include "train/job/same_inputs.h"
#include "train/job/step_graph.h"
#include "train/job/torch_setup.h"
#include "train/optim/phased_schedule.h"

namespace accel {
namespace {

[[noreturn]] void refuse(const Job& job, const std::string& path, const std::string& message,
                         std::string hint = {}) {
  throw RecipeError({{recipe_place(job.resolved, path), message, std::move(hint)}});
}

/// Steps of the whole run; 0 when only time bounds it.
int64_t total_steps(const Job& job) {
  ScheduleContext known = job.length;
  int64_t total = 0;
  for (const Duration& until : job.recipe.train.until) {
    if (until.unit == Duration::Unit::kSeconds) continue;
    if (until.unit == Duration::Unit::kPercent) {
      refuse(job, "train.until", "'until' cannot be a percentage",
             "give steps, epochs, samples, tokens or a time");
    }
    int64_t steps = 0;
    try {
      steps = known.steps(until);
    } catch (const std::invalid_argument& e) {
      refuse(job, "train.until", e.what(), "give steps or epochs");
    }
    if (steps < 1) refuse(job, "train.until", text("'{}' is less than one step", to_string(until)));
    total = total == 0 ? steps : std::min(total, steps);
  }
  return total;
}

void plan_length(Job& job) {
  job.length.steps_per_epoch = job.train_loader->steps_per_epoch();
  job.length.samples_per_step = job.batches.batch;
  // With samples of different lengths the tokens per step vary.
  const bool tokens = job.data.vocab > 0 && !job.data.input.empty() && !job.data.padding &&
                      job.data.input_type == DType::kI64;
  job.length.tokens_per_step = tokens ? job.batches.batch * job.data.input.back() : 0;
  if (job.recipe.train.until.empty()) {
    refuse(job, "train.until", "'until' has no value: the run would never end",
           "write a length, such as '2000 steps', '3 epochs' or '90 min'");
  }
  job.length.total_steps = total_steps(job);
}

/// A precompiled model has a fixed device and fixed types.
void check_precompiled(const Job& job) {
  if (!dynamic_cast<const PrecompiledModel*>(job.model.get())) return;
  const std::string& type = job.recipe.model.type;
  if (job.device != at::kCPU) {
    refuse(job, "accelerator.device", text("the model '{}' was compiled for the CPU", type),
           "add 'device: cpu'");
  }
  if (job.recipe.accelerator.mixed_precision == MixedPrecision::kNo) return;
  refuse(
      job, "accelerator.mixed_precision",
      text("'mixed_precision' has no effect: the model '{}' was compiled with fixed types", type),
      "leave 'mixed_precision' out, or use the model 'exported'");
}

/// Freezes parameters and sets up activation checkpointing.
void prepare_training(const Job& job) {
  check_precompiled(job);
  const TrainSection& train = job.recipe.train;
  freeze_parameters(*job.model, train.freeze, recipe_place(job.resolved, "train.freeze"));
  const ActivationCheckpointing mode = train.activation_checkpointing;
  std::shared_ptr<BlockInputs> inputs;
  if (train.activation_cpu_offload) inputs = std::make_shared<OffloadedInputs>();
  const bool recomputes = mode != ActivationCheckpointing::kNone;
  if (recomputes && checkpoint_blocks(*job.model, inputs, mode) == 0) {
    refuse(job, "train.activation_checkpointing",
           text("the model '{}' has no blocks to recompute", job.recipe.model.type),
           "leave 'activation_checkpointing' out");
  }
  recompute_streamed(job, inputs);
}

void build_schedule(Job& job) {
  std::vector<PhasePlan> phases;
  for (const SchedulePhase& phase : job.recipe.scheduler.phases) {
    phases.push_back({phase.component, phase.extra.duration});
  }
  job.schedule = at_place(recipe_place(job.resolved, "scheduler"),
                          [&] { return make_schedule(phases, job.length); });
}

/// Checks metric names in the recipe now instead of at the first evaluation.
void check_metric_names(const Job& job) {
  Diagnostics problems;
  const std::vector<std::string> names = names_of(job.metric_names);
  const auto check = [&](const std::string& name, const std::string& path) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    std::string hint = did_you_mean(name, names);
    if (hint.empty())
      hint = names.empty() ? "the recipe has no eval data" : text("there is {}", names[0]);
    problems.error(recipe_place(job.resolved, path), text("no metric is named '{}'", name), hint);
  };
  const KeepSection& keep = job.recipe.checkpoint.keep;
  if (keep.best > 0) check(keep.metric, "checkpoint.keep.metric");
  if (!job.schedule->watches().empty()) check(job.schedule->watches(), "scheduler.metric");
  for (const auto& [name, bound] : job.recipe.expect) {
    if (name != "train/loss") check(name, "expect." + name);
  }
  problems.check();
}

/// Refuses profiled steps after the end of the run; the loop warns of a run ended by time.
void check_profiled(const Job& job) {
  const std::vector<int64_t>& steps = job.recipe.profile.steps;
  const int64_t last = job.length.total_steps;
  if (steps.empty() || last == 0 || steps.front() <= last) return;
  Diagnostics problems;
  problems.error(
      recipe_place(job.resolved, "profile.steps"),
      text("'profile.steps' begins at step {}, but the run ends at step {}", steps.front(), last),
      "profile earlier steps, or raise 'train.until'");
  problems.check();
}

/// Gathers the weights of a sharded model while it generates.
class ShardedTexts final : public TextGenerator {
 public:
  ShardedTexts(const Job& job, std::unique_ptr<TextGenerator> texts)
      : job_(job), texts_(std::move(texts)) {}

  void check_prompt(const std::string& prompt) const override { texts_->check_prompt(prompt); }
  bool continues_prompts() const override { return texts_->continues_prompts(); }
  GeneratedText generate(const std::string& prompt, const SamplingOptions& options,
                         uint64_t stream) override {
    const UnshardedScope weights(job_);
    return texts_->generate(prompt, options, stream);
  }

 private:
  const Job& job_;
  std::unique_ptr<TextGenerator> texts_;
};

std::unique_ptr<TextGenerator> build_texts(const Job& job, const TextGeneratorFactory& texts) {
  auto built = texts ? texts(*job.model, job.resolved, job.data, staged_forward(job)) : nullptr;
  if (!built || !communicates_in_passes(job)) return built;
  return std::make_unique<ShardedTexts>(job, std::move(built));
}

void build_callbacks(Job& job, const TextGeneratorFactory& texts) {
  if (job.recipe.callbacks.empty()) return;
  const CallbackContext context{.parameters = job.parameters,
                                .buffers = job.buffers,
                                .metrics = names_of(job.metric_names),
                                .length = job.length,
                                .texts = build_texts(job, texts),
                                .swapper = job.swapper};
  for (const Ref<Callback>& ref : job.recipe.callbacks) {
    job.callbacks.push_back(build(ref, context));
    check_swapping(job, *job.callbacks.back(), ref);
  }
}

}  // namespace

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
    // A task cannot list a plugin's metrics, which check the output themselves.
    const bool known = !is_vendor_name(ref.type);
    if (known && std::find(fitting.begin(), fitting.end(), ref.type) == fitting.end()) {
      problems.error(
          ref.resolved.where,
          text("the metric '{}' does not fit the task '{}'", ref.type, job.recipe.task.type),
          text("metrics of the task: {}",
               detail::inline_text(Codec<std::vector<std::string>>::write(fitting))));
      continue;
    }
    job.metrics.push_back(build(ref, MetricContext{job.data}));
    for (const auto& [name, value] : job.metrics.back()->values()) {
      job.metric_names.emplace_back("eval/" + name, job.metrics.back()->higher_is_better());
    }
  }
  problems.check();
}

std::unique_ptr<Job> build_job(RecipeOptions recipe, Node resolved, const Registry& registry,
                               const World& world, const JobHooks& hooks) {
  auto job = std::make_unique<Job>();
  job->registry = registry;
  job->mesh = world.mesh;
  job->watch = world.watch;
  job->device = world.device;
  job->weights_uninitialized = world.has_checkpoint;
  job->recipe = std::move(recipe);
  job->resolved = std::move(resolved);
  job->rank = world.mesh.world->rank();
  job->num_ranks = world.mesh.world->world();
  job->data_rank = world.mesh.data->rank();
  job->is_main = job->rank == 0;
  const int64_t data_ranks = world.mesh.data->world();
  check_sharing(job->recipe, job->resolved, job->num_ranks);
  job->batches = plan_batches(shared_train(job->recipe, data_ranks), data_ranks);
  set_up_torch(job->recipe, world.local_world);
  load_gpu_kernels(job->device);
  const auto read = [&] {
    build_data(*job);
    plan_length(*job);
    check_profiled(*job);
    if (hooks.before_model) hooks.before_model(*job);
    const Activity shown("building the model");
    build_models(*job, registry, world.is_estimate);
  };
  if (world.inputs_are_same) {
    read();
  } else {
    read_same_inputs(*job, world.allowed, read);
  }
  check_task_fits(*job);
  check_eval_data_fits(*job);
  prepare_training(*job);
  seed_rank(*job, 0);
  job->swapper = build_swapper(*job, world.is_estimate);
  build_trained(*job);
  if (!world.is_estimate) build_step_graph(*job);
  build_schedule(*job);
  build_metrics(*job, registry);
  check_metric_names(*job);
  // Again, with the defaults of the model and the task.
  job->resolved = resolve_recipe(job->recipe, job->resolved);
  build_callbacks(*job, hooks.texts);
  build_margins(*job);
  build_answers(*job);
  const auto make_texts = [&]() -> std::unique_ptr<TextGenerator> {
    return hooks.texts ? hooks.texts(*job->model, job->resolved, job->data, nullptr) : nullptr;
  };
  build_completions(*job, make_texts);
  build_targets(*job, make_texts);
  return job;
}

}  // namespace accel
