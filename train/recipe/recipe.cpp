#include "train/recipe/recipe.h"

#include <algorithm>
#include <set>

#include "core/base/text.h"
#include "core/recipe/interpolate.h"
#include "core/recipe/run_name.h"

namespace accel {
namespace {

Rule<std::string> plain_name() {
  return {[](const std::string& name) { return is_plain_name(name, kLongestRunName); },
          "at most 64 letters, digits, '.', '_' or '-'", "\"pattern\": \"^[A-Za-z0-9._-]{0,64}$\""};
}

/// Sets the default component when the recipe has none.
template <class Base>
void set_default(Ref<Base>& ref, const char* type, Reading& reading) {
  if (ref.type.empty()) ref = reading.registry.of<Base>().prepare(scalar_node(type), reading);
}

/// Refuses two trackers with the same type and options, which would write to the same files.
void check_trackers(const std::vector<Ref<Tracker>>& trackers, Reading& reading) {
  std::set<std::string> seen;
  for (const Ref<Tracker>& tracker : trackers) {
    if (!tracker || seen.insert(to_yaml(tracker.resolved)).second) continue;
    reading.problems.error(tracker.resolved.where,
                           text("a second '{}' tracker writes to the same files", tracker.type),
                           "leave one of them out, or give it another path or name");
  }
}

void check_recipe(const RecipeOptions& recipe, const Node& node, Reading& reading) {
  check_trackers(recipe.trackers, reading);
  check_compat(recipe, node, reading);
  if (recipe.recipe != 1) {
    reading.problems.error(node.find("recipe")->node.where,
                           text("unknown recipe version {}", recipe.recipe),
                           "this build reads version 1");
  }
  if (!has_eval_data(recipe) && !recipe.expect.empty()) {
    for (const auto& [metric, bound] : recipe.expect) {
      if (!metric.starts_with("eval/")) continue;
      reading.problems.error(node.find("expect")->where,
                             text("'{}' is expected, but the recipe has no eval data", metric),
                             "add 'data.eval' or 'data.split'");
      break;
    }
  }
}

/// Declares what is trained, on what and how.
Schema<RecipeOptions> learning_options() {
  return Schema<RecipeOptions>()
      .field("recipe", &RecipeOptions::recipe, "Version of the recipe grammar.")
      .field("name", &RecipeOptions::name,
             "Name of the run, whose folder is runs/<name>; default: the recipe's file name.",
             plain_name())
      .on_resume(Change::kFree)
      .hint_for({"run_name", "experiment_name", "exp_name", "job_name"})
      .hint_for({"output_dir", "out_dir", "save_dir", "default_root_dir", "project_dir"}, "{name}")
      .field("seed", &RecipeOptions::seed, "Seed of weights, data order, augmentation and dropout.",
             at_least<int64_t>(0))
      .hint_for({"random_seed", "random_state", "manual_seed", "data_seed", "seed_everything"})
      .field(
          "plugins", &RecipeOptions::plugins,
          "Plugin files built by `accel-run plugin build`, whose components this recipe can use.")
      .on_resume(Change::kFree)
      .field("model", &RecipeOptions::model, "The model.")
      .required()
      .hint_for({"model_name_or_path", "pretrained_model_name_or_path", "model_name", "model_path",
                 "base_model"},
                "{type: auto, weights: {}}")
      .hint_for({"arch", "architecture", "model_type"})
      .field("task", &RecipeOptions::task, "The loss and its targets; default: the model's task.")
      .hint_for({"objective", "problem_type"})
      .field("data", &RecipeOptions::data, "Training and evaluation data.")
      .required()
      .field("optimizer", &RecipeOptions::optimizer, "The optimizer; default: adamw.")
      .hint_for({"optim", "optimizer_type", "optimizer_name"},
                "AdamW>adamw|adamw_torch>adamw|adamw_torch_fused>adamw|adamw_hf>adamw|"
                "adamw_8bit>adamw|adamw_bnb_8bit>adamw|paged_adamw_8bit>adamw|Adam>adam|SGD>sgd|{}")
      .field("scheduler", &RecipeOptions::scheduler,
             "The learning rate schedule; default: constant.")
      .hint_for({"lr_scheduler_type", "lr_scheduler", "lr_schedule", "scheduler_type"},
                "constant_with_warmup>constant|cosine_with_restarts>cosine|"
                "reduce_lr_on_plateau>plateau|warmup_stable_decay>wsd|{}");
}

}  // namespace

Schema<RecipeOptions> RecipeOptions::schema() {
  return learning_options()
      .field("train", &RecipeOptions::train, "Length, batch size, clipping.")
      .field("accelerator", &RecipeOptions::accelerator, "Processes, device, precision.")
      .field("compat", &RecipeOptions::compat,
             "Which form of an Accelerate script the run equals, by the draws of its DataLoaders.")
      .field("eval", &RecipeOptions::eval, "Evaluation: period and metrics.")
      .field("checkpoint", &RecipeOptions::checkpoint, "Checkpoints: period, retention, resume.")
      .field("callbacks", &RecipeOptions::callbacks, "Callbacks, such as early stopping and EMA.")
      .hint_for({"early_stopping_patience"}, "[{type: early_stop, patience: {}}]")
      .hint_for({"early_stopping"}, "[early_stop]")
      .hint_for({"use_ema", "ema"}, "[ema]")
      .hint_for({"ema_decay"}, "[{type: ema, decay: {}}]")
      .field("trackers", &RecipeOptions::trackers,
             "Trackers of metrics, besides metrics.jsonl, which is always written.")
      .on_resume(Change::kFree)
      .hint_for({"report_to", "log_with", "logger", "loggers"},
                "none>[]|all>[tensorboard, wandb]|{}")
      .hint_for({"wandb", "use_wandb"}, "[wandb]")
      .hint_for({"wandb_project"}, "[{type: wandb, project: {}}]")
      .field("log", &RecipeOptions::log, "Logging: periods and content.")
      .field("profile", &RecipeOptions::profile, "Profiling with PyTorch's profiler.")
      .field("expect", &RecipeOptions::expect,
             "Bounds on final metrics; a run that misses one exits with code 1.")
      .on_resume(Change::kFree)
      .field("smoke", &RecipeOptions::smoke, "Overrides that `accel-run smoke` applies.")
      .on_resume(Change::kFree)
      .field("vars", &RecipeOptions::vars, "Variables for ${vars.NAME}.")
      .on_resume(Change::kFree)
      .check(&check_recipe);
}

RecipeOptions read_recipe(const Node& tree, const std::string& name, Reading& reading) {
  RecipeOptions recipe = RecipeOptions::schema().read(tree, reading);
  reading.problems.check();
  if (recipe.name.empty()) recipe.name = run_name_of(name, kLongestRunName);
  set_default(recipe.optimizer, "adamw", reading);
  if (!recipe.scheduler) {
    SchedulePhase phase;
    set_default(phase.component, "constant", reading);
    recipe.scheduler.phases.push_back(std::move(phase));
  }
  reading.problems.check();
  return recipe;
}

Node resolve_recipe(const RecipeOptions& recipe, const Node& tree) {
  Node resolved = RecipeOptions::schema().write(recipe, &tree);
  Node::Map& map = *resolved.map();
  // Options without value and default are omitted, so that the file reads back.
  std::erase_if(map, [](const Node::Entry& entry) {
    const bool empty_map = entry.node.map() && entry.node.map()->empty();
    return entry.node.null() || empty_map;
  });
  return escape_references(std::move(resolved));
}

std::string origin_of(const Node& node) {
  const Source* source = node.where.source.get();
  if (!source || source->kind == Source::Kind::kDefault) return "default";
  if (source->kind == Source::Kind::kArgument)
    return "argument " + std::to_string(source->argument);
  if (source->kind == Source::Kind::kEnvironment) return "environment " + source->path;
  return source->path + ":" + std::to_string(node.where.line);
}

}  // namespace accel
