#include "runner/job/recipe.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "core/interpolate.h"

namespace accel {
namespace {

bool is_plain_name(const std::string& name) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  };
  return name.size() <= 64 && std::all_of(name.begin(), name.end(), plain) && name != "." &&
         name != "..";
}

Rule<std::string> plain_name() {
  return {is_plain_name, "at most 64 letters, digits, '.', '_' or '-'",
          "\"pattern\": \"^[A-Za-z0-9._-]{0,64}$\""};
}

/// Puts the value of a bare `key` where the recipe has none.
template <class Base>
void fill(Ref<Base>& ref, const char* type, Reading& reading) {
  if (ref.type.empty()) ref = reading.registry.of<Base>().prepare(scalar_node(type), reading);
}

void check_batches(const TrainSection& train, const Node& node, Reading& reading) {
  const auto place = [&](const char* key) {
    const Node::Entry* entry = node.find(key);
    return entry ? entry->node.where : node.where;
  };
  const int64_t micro = train.micro_batch.value_or(0);
  const int64_t steps = train.gradient_accumulation_steps.value_or(0);
  if (micro && steps && train.batch % (micro * steps) != 0) {
    reading.problems.error(place("gradient_accumulation_steps"),
                           "batch " + std::to_string(train.batch) + " is not " +
                               std::to_string(micro) + " micro x " + std::to_string(steps) +
                               " accumulated",
                           "leave one of the three out: it follows from the others");
  } else if (micro && train.batch % micro != 0) {
    reading.problems.error(place("micro_batch"), "batch " + std::to_string(train.batch) +
                                                     " is no multiple of micro_batch " +
                                                     std::to_string(micro));
  } else if (steps && train.batch % steps != 0) {
    reading.problems.error(
        place("gradient_accumulation_steps"),
        "batch " + std::to_string(train.batch) + " cannot be split into " + std::to_string(steps));
  }
}

/// Two trackers of one type and the same options would write into the same files.
void check_trackers(const std::vector<Ref<Tracker>>& trackers, Reading& reading) {
  std::set<std::string> seen;
  for (const Ref<Tracker>& tracker : trackers) {
    if (!tracker || seen.insert(to_yaml(tracker.resolved)).second) continue;
    reading.problems.error(tracker.resolved.where,
                           "a second '" + tracker.type + "' tracker writes to the same place",
                           "leave one of them out, or give it another path or name");
  }
}

void check_recipe(const RecipeOptions& recipe, const Node& node, Reading& reading) {
  check_trackers(recipe.trackers, reading);
  if (recipe.recipe != 1) {
    reading.problems.error(node.find("recipe")->node.where,
                           "recipe version " + std::to_string(recipe.recipe) + " is not known",
                           "this build reads version 1");
  }
  if (recipe.data.eval.parts.empty() && !recipe.expect.empty()) {
    for (const auto& [metric, bound] : recipe.expect) {
      if (!metric.starts_with("eval/")) continue;
      reading.problems.error(node.find("expect")->where,
                             "'" + metric + "' is expected, but the recipe has no eval data",
                             "add 'data.eval'");
      break;
    }
  }
}

Rule<Duration> clock_time() {
  return {[](const Duration& v) { return v.unit == Duration::Unit::kSeconds && v.value > 0; },
          "a time, such as '90 min'", ""};
}

/// A time that comes again and again must pass in between.
Rule<Durations> recurring() {
  const auto first_none = [](const Durations& list) {
    const auto none = std::find_if(list.begin(), list.end(),
                                   [](const Duration& duration) { return duration.value <= 0; });
    return static_cast<size_t>(none - list.begin());
  };
  return {[first_none](const Durations& list) { return first_none(list) == list.size(); },
          "more than nothing", "", first_none};
}

/// By value, not by presence: a resolved recipe names every option.
void check_keep(const KeepSection& section, const Node& node, Reading& reading) {
  if (section.best > 0) return;
  const KeepSection plain;
  const auto refuse = [&](const char* key) {
    reading.problems.error(
        node.find(key)->node.where,
        std::string("'") + key + "' says which checkpoints are best, and none is kept for that",
        "add 'best: 1', or leave it out");
  };
  if (section.by != plain.by) refuse("by");
  if (section.mode != plain.mode) refuse("mode");
}

/// By value, as above.
void check_resume_step(const CheckpointSection& section, const Node& node, Reading& reading) {
  if (!section.resume_step || section.resume.kind == ResumeFrom::Kind::kPath) return;
  reading.problems.error(node.find("resume_step")->where,
                         "'resume_step' is only for a 'resume' that is a path",
                         "leave it out: a checkpoint of accel-run knows its step");
}

/// A trace of more would not open.
constexpr int64_t kMostProfiled = 1000;

Rule<std::vector<int64_t>> profiled_steps() {
  return {[](const std::vector<int64_t>& steps) {
            return steps.empty() ||
                   (steps.size() <= 2 && steps.front() >= 1 && steps.front() <= steps.back() &&
                    steps.back() - steps.front() < kMostProfiled);
          },
          "the first step and the last, from 1 on and at most 1000, such as [10, 13]", ""};
}

/// By value, as above.
void check_profile(const ProfileSection& section, const Node& node, Reading& reading) {
  if (!section.steps.empty()) return;
  const ProfileSection plain;
  const auto refuse = [&](const char* key) {
    reading.problems.error(node.find(key)->where,
                           std::string("'") + key + "' is of a profile, and no step is profiled",
                           "add 'steps: [10, 13]', or leave it out");
  };
  if (section.operators != plain.operators) refuse("operators");
  if (section.shapes != plain.shapes) refuse("shapes");
  if (section.memory != plain.memory) refuse("memory");
}

void check_loader(const LoaderSection& section, const Node& node, Reading& reading) {
  if (section.group_by_length && !section.shuffle) {
    reading.problems.error(node.find("group_by_length")->node.where,
                           "'group_by_length' makes an order of its own, and 'shuffle' is false",
                           "leave one of the two out");
  }
  if (!section.dispatch_batches || !section.drop_last) return;
  reading.problems.error(node.find("dispatch_batches")->node.where,
                         "'dispatch_batches' changes nothing with 'drop_last'",
                         "it cuts an epoch's last, short batch: leave one of the two out");
}

}  // namespace

Schema<LoaderSection> LoaderSection::schema() {
  return Schema<LoaderSection>()
      .field("workers", &LoaderSection::workers,
             "Threads that prepare samples; 0 prepares them in the training thread.",
             between<int64_t>(0, 256))
      .on_resume(Change::kFree)
      .field("prefetch", &LoaderSection::prefetch, "Micro-batches prepared ahead.",
             between<int64_t>(1, 1024))
      .on_resume(Change::kFree)
      .field("shuffle", &LoaderSection::shuffle, "A new order each epoch, from seed and epoch.")
      .field("group_by_length", &LoaderSection::group_by_length,
             "Batches of samples of similar length, which need less fill: the order is cut into "
             "stretches of up to 50 batches, and each is sorted from long to short. For texts of "
             "jsonl, chat, csv, tsv, parquet, arrow, mds and webdataset.")
      .field("drop_last", &LoaderSection::drop_last, "Leave out an epoch's last, short batch.")
      .field("even_batches", &LoaderSection::even_batches,
             "Fill what ranks lack in an epoch's last batch with samples from the epoch's start, "
             "as Accelerate does; they count again.")
      .field(
          "split_batches", &LoaderSection::split_batches,
          "Whether ranks split a batch of `train.batch` samples; false: each rank has one of its "
          "own, and a step has ranks times as many samples, as in Accelerate.")
      .field("dispatch_batches", &LoaderSection::dispatch_batches,
             "Cut what is left at an epoch's end into slices of one size for all ranks, as when "
             "Accelerate's first process deals out batches; every rank still reads its own.")
      .check(&check_loader);
}

Schema<DataSection> DataSection::schema() {
  return Schema<DataSection>()
      .field("train", &DataSection::train, "What to train on: a dataset, or a list with weights.")
      .required()
      .field("eval", &DataSection::eval, "What to evaluate on.")
      .on_resume(Change::kFree)
      .field("transform", &DataSection::transform, "Changes made to each sample, in order.")
      .field("loader", &DataSection::loader, "How samples are read.");
}

Schema<TrainSection> TrainSection::schema() {
  return Schema<TrainSection>()
      .field("until", &TrainSection::until,
             "When to stop: `2000 steps`, `3 epochs`, `90 min`; of a list, whichever comes first.")
      .field("batch", &TrainSection::batch,
             "Samples per optimizer step, over all ranks; see also `data.loader.split_batches`.",
             at_least<int64_t>(1))
      .field("micro_batch", &TrainSection::micro_batch,
             "Samples per forward pass on one rank; auto: as many as fit into memory, found in the "
             "first step.",
             if_given<Auto>(at_least<int64_t>(1)))
      .field("gradient_accumulation_steps", &TrainSection::gradient_accumulation_steps,
             "Micro-batches per optimizer step; follows from batch and micro_batch.",
             if_given<Auto>(at_least<int64_t>(1)))
      .field("max_grad_norm", &TrainSection::max_grad_norm,
             "Scale gradients down to this total norm.", if_given<std::optional>(more_than(0.0)))
      .field("max_grad_value", &TrainSection::max_grad_value,
             "Clip each gradient element to this size.", if_given<std::optional>(more_than(0.0)))
      .field("freeze", &TrainSection::freeze,
             "Patterns of parameters that keep their values, such as '*.embeddings.*'.")
      .field("activation_checkpointing", &TrainSection::activation_checkpointing,
             "blocks: keep only what enters each block of the model, and compute it again in the "
             "backward pass; much less memory, a third more work, the same numbers.")
      .on_resume(Change::kFree)
      .field("deterministic", &TrainSection::deterministic,
             "Refuse operators that have no deterministic implementation.")
      .check(&check_batches);
}

Schema<EvalSection> EvalSection::schema() {
  return Schema<EvalSection>()
      .field("every", &EvalSection::every, "How often to evaluate; the end of the run always does.",
             recurring())
      .field("at_start", &EvalSection::at_start, "Evaluate before the first step too.")
      .field("batch", &EvalSection::batch, "Samples per forward pass; auto: train's micro_batch.",
             if_given<Auto>(at_least<int64_t>(1)))
      .field("metrics", &EvalSection::metrics, "What to measure besides the loss.")
      .on_resume(Change::kFree);
}

Schema<KeepSection> KeepSection::schema() {
  return Schema<KeepSection>()
      .field("last", &KeepSection::last, "Newest checkpoints to keep.", at_least<int64_t>(1))
      .on_resume(Change::kFree)
      .field("best", &KeepSection::best, "Best checkpoints to keep besides.", at_least<int64_t>(0))
      .on_resume(Change::kFree)
      .field("by", &KeepSection::by, "The metric that says which is best.")
      .on_resume(Change::kFree)
      .field("mode", &KeepSection::mode, "Whether more or less of it is better.")
      .on_resume(Change::kFree)
      .check(&check_keep);
}

Schema<CheckpointSection> CheckpointSection::schema() {
  return Schema<CheckpointSection>()
      .field("every", &CheckpointSection::every, "How often to save.", recurring())
      .on_resume(Change::kFree)
      .field("at_end", &CheckpointSection::at_end, "Save when training ends.")
      .on_resume(Change::kFree)
      .field("async", &CheckpointSection::async,
             "Write while training goes on, which takes a copy of the state in memory.")
      .on_resume(Change::kFree)
      .field("on_error", &CheckpointSection::on_error,
             "What a checkpoint that cannot be written means for the run.")
      .on_resume(Change::kFree)
      .field("deadline", &CheckpointSection::deadline,
             "Time this process has, such as `4 h`: it saves and stops early enough. "
             "SLURM_JOB_END_TIME counts as well.",
             if_given<std::optional>(clock_time()))
      .on_resume(Change::kFree)
      .field("keep", &CheckpointSection::keep, "Which checkpoints stay.")
      .field("resume", &CheckpointSection::resume,
             "auto: from the newest valid checkpoint of the run folder; never; or a path.")
      .on_resume(Change::kFree)
      .field("resume_step", &CheckpointSection::resume_step,
             "Steps done by a checkpoint of Accelerate's, which does not tell; auto: as its "
             "optimizer counts, or else its scheduler.",
             if_given<Auto>(between<int64_t>(0, int64_t{1} << 40)))
      .on_resume(Change::kFree)
      .check(&check_resume_step);
}

Schema<LogSection> LogSection::schema() {
  return Schema<LogSection>()
      .field("every", &LogSection::every, "How often a line is printed and trackers are fed.",
             recurring())
      .on_resume(Change::kFree)
      .field("histograms", &LogSection::histograms,
             "How often trackers get histograms of the weights.", recurring())
      .on_resume(Change::kFree)
      .field("images", &LogSection::images,
             "So many samples of the first batch are shown to trackers and in the report, as the "
             "model "
             "sees them.",
             between<int64_t>(0, 64))
      .on_resume(Change::kFree)
      .field("system", &LogSection::system,
             "Whether processor, memory, disk and GPU use are logged too.")
      .on_resume(Change::kFree)
      .field("plan", &LogSection::plan,
             "Whether to plan the run as `accel-run plan` does before it starts, and to tell after "
             "its first step and at its end what it takes beside that.")
      .on_resume(Change::kFree);
}

Schema<ProfileSection> ProfileSection::schema() {
  return Schema<ProfileSection>()
      .field("steps", &ProfileSection::steps,
             "The step to profile, or the first and the last: `[10, 13]`; empty: none. They are "
             "slower; the others are not, and the numbers stay the same.",
             profiled_steps())
      .on_resume(Change::kFree)
      .field("operators", &ProfileSection::operators, "How many operators are listed in the log.",
             between<int64_t>(0, 1000))
      .on_resume(Change::kFree)
      .field("shapes", &ProfileSection::shapes,
             "Tell calls of an operator apart by the shapes of its inputs.")
      .on_resume(Change::kFree)
      .field("memory", &ProfileSection::memory, "Record what is allocated and given back.")
      .on_resume(Change::kFree)
      .check(&check_profile);
}

Schema<RecipeOptions> RecipeOptions::schema() {
  return Schema<RecipeOptions>()
      .field("recipe", &RecipeOptions::recipe, "Version of the recipe grammar.")
      .field("name", &RecipeOptions::name,
             "Names the run folder runs/<name>; default: the file's name.", plain_name())
      .on_resume(Change::kFree)
      .field("seed", &RecipeOptions::seed, "Of weights, data order, augmentation and dropout.",
             at_least<int64_t>(0))
      .field(
          "plugins", &RecipeOptions::plugins,
          "Files that `accel-run plugin build` made: they are loaded first, and their components "
          "can be named in this recipe.")
      .on_resume(Change::kFree)
      .field("model", &RecipeOptions::model, "What to train.")
      .required()
      .field("task", &RecipeOptions::task, "What a step computes; default: the model's own.")
      .field("data", &RecipeOptions::data, "What to train and evaluate on.")
      .required()
      .field("optimizer", &RecipeOptions::optimizer,
             "How gradients become updates; default: adamw.")
      .field("scheduler", &RecipeOptions::scheduler,
             "The learning rate over time; default: constant.")
      .field("train", &RecipeOptions::train, "Length, batch size, clipping.")
      .field("accelerator", &RecipeOptions::accelerator, "Processes, device, precision.")
      .field("eval", &RecipeOptions::eval, "When and what to evaluate.")
      .field("checkpoint", &RecipeOptions::checkpoint, "When to save, what to keep.")
      .field("callbacks", &RecipeOptions::callbacks, "What watches the run.")
      .field("trackers", &RecipeOptions::trackers,
             "Where numbers go besides metrics.jsonl, which is always written.")
      .on_resume(Change::kFree)
      .field("log", &RecipeOptions::log, "How often numbers are logged.")
      .field("profile", &RecipeOptions::profile, "Which steps to look into.")
      .field("expect", &RecipeOptions::expect,
             "Bounds on the final numbers; a run that misses one exits with 1.")
      .on_resume(Change::kFree)
      .field("smoke", &RecipeOptions::smoke, "Overrides that `accel-run smoke` applies.")
      .on_resume(Change::kFree)
      .field("vars", &RecipeOptions::vars, "Values to use as ${vars.NAME}.")
      .on_resume(Change::kFree)
      .check(&check_recipe);
}

RecipeOptions read_recipe(const Node& tree, const std::string& name, Reading& reading) {
  RecipeOptions recipe = RecipeOptions::schema().read(tree, reading);
  reading.problems.check();
  if (recipe.name.empty()) recipe.name = is_plain_name(name) ? name : "run";
  fill(recipe.optimizer, "adamw", reading);
  if (!recipe.scheduler) {
    SchedulePhase phase;
    fill(phase.component, "constant", reading);
    recipe.scheduler.phases.push_back(std::move(phase));
  }
  reading.problems.check();
  return recipe;
}

Node resolve_recipe(const RecipeOptions& recipe, const Node& tree) {
  Node resolved = RecipeOptions::schema().write(recipe, &tree);
  Node::Map& map = *resolved.map();
  // What was not given and has no default is left out, so that the file reads back.
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
