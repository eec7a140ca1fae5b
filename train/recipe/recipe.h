// The recipe's top-level sections: every key a recipe may hold, declared once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/api/plugin_identity.h"
#include "core/recipe/registry.h"
#include "data/loader/curriculum.h"
#include "train/recipe/accelerator_section.h"
#include "train/recipe/compat_section.h"
#include "train/recipe/recipe_values.h"

namespace accel {

template <>
struct EnumNames<Pacing> {
  static constexpr std::pair<Pacing, const char*> kValues[] = {{Pacing::kSqrt, "sqrt"},
                                                               {Pacing::kLinear, "linear"}};
};

/// Early steps draw easy samples only.
struct CurriculumSection {
  std::string by = kByLength;
  std::optional<Duration> until;  ///< none: no curriculum
  Portion start = {.percent = 10};
  Pacing pacing = Pacing::kSqrt;
  static Schema<CurriculumSection> schema();
};

struct LoaderSection {
  int64_t workers = 2;
  int64_t prefetch = 4;
  bool shuffle = true;
  std::optional<int64_t> shuffle_block_size;
  bool group_by_length = false;
  CurriculumSection curriculum;
  MixtureCurve mixture = MixtureCurve::kLinear;
  bool drop_last = false;
  bool even_batches = false;
  bool split_batches = true;
  bool dispatch_batches = false;
  static Schema<LoaderSection> schema();
};

/// Held-out samples of the training data.
struct SplitSection {
  std::optional<Portion> eval;  ///< none: nothing is held out
  int64_t seed = 0;
  Auto<bool> stratify;
  std::string group;
  static Schema<SplitSection> schema();
};

struct DataSection {
  DatasetParts train;
  DatasetParts eval;
  SplitSection split;
  std::vector<Ref<Transform>> transform;
  LoaderSection loader;
  static Schema<DataSection> schema();
};

struct TrainSection {
  Durations until = just(1, Duration::Unit::kEpochs);
  int64_t batch = 32;
  Auto<int64_t> micro_batch;
  Auto<int64_t> gradient_accumulation_steps;
  std::optional<double> max_grad_norm;
  std::optional<double> max_grad_value;
  std::vector<std::string> freeze;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kNone;
  bool activation_cpu_offload = false;
  bool deterministic = false;
  static Schema<TrainSection> schema();
};

struct EvalSection {
  Durations every = just(1, Duration::Unit::kEpochs);
  bool at_start = false;
  Auto<int64_t> batch;
  std::vector<Ref<Metric>> metrics;
  static Schema<EvalSection> schema();
};

struct KeepSection {
  int64_t last = 2;
  int64_t best = 0;
  std::string metric = "eval/loss";
  BestMode mode = BestMode::kAuto;
  static Schema<KeepSection> schema();
};

struct CheckpointSection {
  Durations every = just(30 * 60, Duration::Unit::kSeconds);
  bool at_end = true;
  bool async = true;
  SaveError on_error = SaveError::kStop;
  std::optional<Duration> deadline;
  KeepSection keep;
  ResumeFrom resume;
  Auto<int64_t> resume_step;
  static Schema<CheckpointSection> schema();
};

struct LogSection {
  Durations every = just(10, Duration::Unit::kSteps);
  Durations histograms;
  int64_t images = 0;
  bool system = false;
  bool plan = true;
  static Schema<LogSection> schema();
};

struct ProfileSection {
  std::vector<int64_t> steps;
  int64_t operators = 20;
  bool shapes = false;
  bool memory = false;
  static Schema<ProfileSection> schema();
};

/// A whole recipe with all defaults.
struct RecipeOptions {
  int64_t recipe = 1;
  std::string name;
  int64_t seed = 42;
  Ref<Model> model;
  Ref<Task> task;
  DataSection data;
  Ref<Optimizer> optimizer;
  SchedulePhases scheduler;
  TrainSection train;
  AcceleratorSection accelerator;
  CompatSection compat;
  EvalSection eval;
  CheckpointSection checkpoint;
  std::vector<Ref<Callback>> callbacks;
  std::vector<Ref<Tracker>> trackers;
  LogSection log;
  ProfileSection profile;
  std::map<std::string, Expectation> expect;
  std::map<std::string, Node> smoke;
  std::map<std::string, Node> vars;
  std::vector<FilePath> plugins;
  std::vector<PluginIdentity> plugin_identities;  ///< of `plugins`; set by the loader
  static Schema<RecipeOptions> schema();
};

/// Whether the recipe has eval data, from separate files or held out.
inline bool has_eval_data(const RecipeOptions& recipe) {
  return !recipe.data.eval.parts.empty() || recipe.data.split.eval.has_value();
}

/// Reads a composed recipe; one that names no optimizer or scheduler gets adamw and constant, one
/// without a name gets `name`. Throws RecipeError with everything wrong, `reading`'s problems so
/// far included.
RecipeOptions read_recipe(const Node& tree, const std::string& name, Reading& reading);

/// The recipe with all defaults, as a tree that reads back; source positions come from `tree`.
Node resolve_recipe(const RecipeOptions& recipe, const Node& tree);

/// The source of a value: "mnist.yaml:12", "argument 2", "environment NAME" or "default".
std::string origin_of(const Node& node);

}  // namespace accel
