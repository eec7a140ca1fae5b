// The sections of a recipe: their options and the rules over several of them.
#include <algorithm>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "train/recipe/recipe.h"

namespace accel {
namespace {

void check_train(const TrainSection& train, const Node& node, Reading& reading) {
  const auto where = [&](const char* key) {
    const Node::Entry* entry = node.find(key);
    return entry ? entry->node.where : node.where;
  };
  if (train.activation_cpu_offload &&
      train.activation_checkpointing == ActivationCheckpointing::kNone) {
    reading.problems.error(where("activation_cpu_offload"),
                           "'activation_cpu_offload' wants 'activation_checkpointing', which is "
                           "none",
                           "add 'activation_checkpointing: blocks', or leave it out");
  }
  const int64_t micro = train.micro_batch.value_or(0);
  const int64_t steps = train.gradient_accumulation_steps.value_or(0);
  if (micro && steps && train.batch % (micro * steps) != 0) {
    reading.problems.error(
        where("gradient_accumulation_steps"),
        text("batch {} is not {} micro x {} accumulated", train.batch, micro, steps),
        "leave one of the three out: it follows from the others");
  } else if (micro && train.batch % micro != 0) {
    reading.problems.error(
        where("micro_batch"),
        text("batch {} is not a multiple of micro_batch {}", train.batch, micro));
  } else if (steps && train.batch % steps != 0) {
    reading.problems.error(
        where("gradient_accumulation_steps"),
        text("batch {} cannot be split into {} micro-batches", train.batch, steps));
  }
}

Rule<Duration> clock_time() {
  return {[](const Duration& v) { return v.unit == Duration::Unit::kSeconds && v.value > 0; },
          "a time, such as '90 min'", ""};
}

/// A period must be positive.
Rule<Durations> recurring() {
  const auto first_none = [](const Durations& list) {
    const auto none = std::find_if(list.begin(), list.end(),
                                   [](const Duration& duration) { return duration.value <= 0; });
    return static_cast<size_t>(none - list.begin());
  };
  return {[first_none](const Durations& list) { return first_none(list) == list.size(); },
          "more than nothing", "", first_none};
}

/// Compares values, not presence: a resolved recipe has every option.
void check_keep(const KeepSection& section, const Node& node, Reading& reading) {
  if (section.best > 0) return;
  const KeepSection plain;
  const auto refuse = [&](const char* key) {
    reading.problems.error(node.find(key)->node.where,
                           text("'{}' ranks the best checkpoints, but none are kept", key),
                           "add 'best: 1', or leave it out");
  };
  if (section.metric != plain.metric) refuse("metric");
  if (section.mode != plain.mode) refuse("mode");
}

/// By value, as above.
void check_resume_step(const CheckpointSection& section, const Node& node, Reading& reading) {
  if (!section.resume_step || section.resume.kind == ResumeFrom::Kind::kPath) return;
  reading.problems.error(node.find("resume_step")->where,
                         "'resume_step' needs a 'resume' that is a path",
                         "leave it out: a checkpoint of accel-run records its step");
}

/// Trace viewers do not open traces of more.
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
                           text("'{}' has no effect: no step is profiled", key),
                           "add 'steps: [10, 13]', or leave it out");
  };
  if (section.operators != plain.operators) refuse("operators");
  if (section.shapes != plain.shapes) refuse("shapes");
  if (section.memory != plain.memory) refuse("memory");
}

void check_loader(const LoaderSection& section, const Node& node, Reading& reading) {
  if (section.group_by_length && !section.shuffle) {
    reading.problems.error(node.find("group_by_length")->node.where,
                           "'group_by_length' reorders samples, but 'shuffle' is false",
                           "leave one of the two out");
  }
  if (section.shuffle_block_size && !section.shuffle) {
    reading.problems.error(node.find("shuffle_block_size")->node.where,
                           "'shuffle_block_size' has no effect: 'shuffle' is false",
                           "leave one of the two out");
  }
  if (section.curriculum.until) {
    const char* const other = !section.shuffle             ? "shuffle: false"
                              : section.shuffle_block_size ? "shuffle_block_size"
                              : section.group_by_length    ? "group_by_length"
                                                           : nullptr;
    if (other) {
      reading.problems.error(node.find("curriculum")->node.where,
                             text("'curriculum' is another order than that of '{}'", other),
                             "leave one of the two out");
    }
  }
  if (!section.dispatch_batches || !section.drop_last) return;
  reading.problems.error(node.find("dispatch_batches")->node.where,
                         "'dispatch_batches' has no effect with 'drop_last'",
                         "it divides an epoch's last, short batch: leave one of the two out");
}

Rule<std::string> some_column() {
  return {[](const std::string& v) { return !v.empty(); }, "'length' or the name of a column",
          "\"minLength\": 1"};
}

/// Steps or epochs.
Rule<Duration> counted_span() {
  return {[](const Duration& v) {
            const bool is_steps = v.unit == Duration::Unit::kSteps;
            return (is_steps || v.unit == Duration::Unit::kEpochs) && v.value > 0;
          },
          "steps or epochs, such as '3 epochs'", ""};
}

/// By value, as above.
void check_curriculum(const CurriculumSection& section, const Node& node, Reading& reading) {
  if (section.until) return;
  const CurriculumSection plain;
  const auto refuse = [&](const char* key) {
    reading.problems.error(node.find(key)->node.where,
                           text("'{}' has no effect: the curriculum has no 'until'", key),
                           "add 'until: 3 epochs', or leave it out");
  };
  if (section.by != plain.by) refuse("by");
  if (to_string(section.start) != to_string(plain.start)) refuse("start");
  if (section.pacing != plain.pacing) refuse("pacing");
}

/// By value, as above.
void check_split(const SplitSection& section, const Node& node, Reading& reading) {
  if (section.eval) return;
  const SplitSection plain;
  const auto refuse = [&](const char* key) {
    reading.problems.error(node.find(key)->node.where,
                           text("'{}' has no effect: nothing is held out", key),
                           "add 'eval: 10%', or leave it out");
  };
  if (section.seed != plain.seed) refuse("seed");
  if (section.stratify) refuse("stratify");
  if (!section.group.empty()) refuse("group");
}

bool has_schedule(const DatasetParts& parts) {
  return std::any_of(parts.parts.begin(), parts.parts.end(), [](const DatasetPart& part) {
    return part.extra.weight && part.extra.weight->is_schedule;
  });
}

/// By value, as above.
void check_mixture(const DataSection& section, const Node& node, Reading& reading) {
  const auto at = [&](const char* key) {
    const Node::Entry* loader = node.find("loader");
    const Node::Entry* entry = loader ? loader->node.find(key) : nullptr;
    return entry ? entry->node.where : node.where;
  };
  if (has_schedule(section.eval)) {
    reading.problems.error(node.find("eval")->node.where,
                           "'weight' of eval data changes over the run, but an evaluation has no "
                           "steps",
                           "give each dataset of 'eval' a number");
  }
  if (!has_schedule(section.train)) {
    if (section.loader.mixture == MixtureCurve::kLinear) return;
    reading.problems.error(at("mixture"), "'mixture' has no effect: no 'weight' has several points",
                           "write points, such as 'weight: {0: 1, 50%: 0.2}', or leave it out");
  } else if (section.loader.group_by_length) {
    reading.problems.error(at("group_by_length"),
                           "'group_by_length' moves samples to other steps than those of 'weight'",
                           "leave it out, or give each dataset a 'weight' that is a number");
  }
}

void check_data(const DataSection& section, const Node& node, Reading& reading) {
  check_mixture(section, node, reading);
  if (section.eval.parts.empty() || !section.split.eval) return;
  reading.problems.error(node.find("split")->where, "'split' and 'eval' exclude each other",
                         "'split' draws eval data from 'train': leave one of the two out");
}

}  // namespace

Schema<CurriculumSection> CurriculumSection::schema() {
  return Schema<CurriculumSection>()
      .field("by", &CurriculumSection::by,
             "Difficulty of a sample: `length` in tokens, or a column of numbers of csv, tsv, or "
             "texts of jsonl, parquet, arrow and hf.",
             some_column())
      .hint_for({"curriculum_type", "difficulty", "metric"})
      .field("until", &CurriculumSection::until,
             "Steps or epochs after which all samples are drawn from, such as `3 epochs`.",
             if_given<std::optional>(counted_span()))
      .hint_for({"total_curriculum_step", "duration"})
      .field("start", &CurriculumSection::start,
             "Share or number of samples, the easiest ones, that the first step draws from.")
      .hint_for({"min_difficulty", "c0"})
      .field("pacing", &CurriculumSection::pacing,
             "Growth of the share: `sqrt`, fast at first, or `linear`.")
      .hint_for({"schedule_type"})
      .check(&check_curriculum);
}

Schema<LoaderSection> LoaderSection::schema() {
  return Schema<LoaderSection>()
      .field("workers", &LoaderSection::workers,
             "Threads that prepare samples; 0 prepares them in the training thread.",
             between<int64_t>(0, 256))
      .on_resume(Change::kFree)
      .hint_for({"num_workers", "dataloader_num_workers", "n_workers"})
      .field("prefetch", &LoaderSection::prefetch,
             "Micro-batches prepared ahead. More hide variations in reading time and take more "
             "memory.",
             between<int64_t>(1, 1024))
      .on_resume(Change::kFree)
      .hint_for({"prefetch_factor", "dataloader_prefetch_factor"})
      .field("shuffle", &LoaderSection::shuffle, "Shuffle samples each epoch, by seed and epoch.")
      .field(
          "shuffle_block_size", &LoaderSection::shuffle_block_size,
          "Block size, in samples, of a shuffle with locality for streamed data: runs of a 16th of "
          "it are put in random order, then the samples of each block. null: a full shuffle.",
          if_given<std::optional>(at_least<int64_t>(2)))
      .field("group_by_length", &LoaderSection::group_by_length,
             "Batch samples of similar length, which need less padding: the order is divided into "
             "groups of up to 50 batches, each sorted from long to short. For texts of jsonl, "
             "chat, csv, tsv, parquet, arrow, mds and webdataset.")
      .field("curriculum", &LoaderSection::curriculum,
             "Draw from the easiest samples first, from a share that grows to all of them "
             "(Platanios et al., 2019).")
      .hint_for({"curriculum_learning"})
      .field("mixture", &LoaderSection::mixture,
             "Weights of datasets between the points of their `weight`: `linear` moves from one to "
             "the next, `stages` keeps each until the next point.")
      .field("drop_last", &LoaderSection::drop_last, "Drop an epoch's last, short batch.")
      .hint_for({"dataloader_drop_last"})
      .field("even_batches", &LoaderSection::even_batches,
             "Complete the ranks' micro-batches of an epoch's last batch with samples from the "
             "start of the epoch, as Accelerate does; they are used twice.")
      .field("split_batches", &LoaderSection::split_batches,
             "true: ranks split a batch of `train.batch` samples. false: `train.batch` is per "
             "rank, as in Accelerate.")
      .field("dispatch_batches", &LoaderSection::dispatch_batches,
             "Divide the last batch of an epoch into equal slices for all ranks, as Accelerate's "
             "dispatcher does; each rank still reads its own samples.")
      .check(&check_loader);
}

Schema<SplitSection> SplitSection::schema() {
  return Schema<SplitSection>()
      .field("eval", &SplitSection::eval,
             "Samples to hold out of 'train' as eval data: a share such as `10%`, or a number.")
      .hint_for({"test_size", "val_size", "validation_split", "val_set_size", "test_split"},
                "{percent}")
      .field("seed", &SplitSection::seed, "Seed of the choice.", at_least<int64_t>(0))
      .hint_for({"random_state"})
      .field("stratify", &SplitSection::stratify,
             "Hold out the same share of each class. auto: where the dataset has classes.")
      .field("group", &SplitSection::group,
             "Column of a table, of JSON Lines, of Parquet or Arrow files: rows with the same "
             "value stay on one side.")
      .hint_for({"groups", "group_by"})
      .check(&check_split);
}

Schema<DataSection> DataSection::schema() {
  return Schema<DataSection>()
      .field("train", &DataSection::train,
             "Training data: a dataset, or a list of datasets with weights.")
      .required()
      .hint_for({"dataset", "datasets", "dataset_name", "train_dataset"}, "{type: hf, path: {}}")
      .hint_for({"train_file", "train_data", "train_path", "data_path"}, "{type: jsonl, path: {}}")
      .field("eval", &DataSection::eval, "Evaluation data.")
      .on_resume(Change::kFree)
      .hint_for({"eval_dataset", "validation_dataset", "val_dataset"}, "{type: hf, path: {}}")
      .hint_for({"validation_file", "eval_file", "test_file", "val_data"},
                "{type: jsonl, path: {}}")
      .field("split", &DataSection::split, "Eval data held out of 'train', instead of 'eval'.")
      .field("transform", &DataSection::transform, "Transforms of each sample, in order.")
      .hint_for({"transforms", "augmentation", "augmentations"})
      .field("loader", &DataSection::loader, "Data loading: workers, order, batches.")
      .check(&check_data);
}

Schema<TrainSection> TrainSection::schema() {
  return Schema<TrainSection>()
      .field("until", &TrainSection::until,
             "When to stop: `2000 steps`, `3 epochs`, `90 min`; of a list, whichever comes first.")
      .hint_for({"epochs", "epoch", "num_epochs", "num_train_epochs", "n_epochs", "n_epoch",
                 "max_epochs", "total_epochs"},
                "{} epochs")
      .hint_for(
          {"max_steps", "steps", "num_steps", "total_steps", "max_train_steps", "num_train_steps",
           "training_steps", "train_steps", "max_iters", "iterations", "num_iterations"},
          "{} steps")
      .hint_for({"max_time", "max_duration"})
      .field("batch", &TrainSection::batch,
             "Samples per optimizer step, over all ranks; see also `data.loader.split_batches`.",
             at_least<int64_t>(1))
      .hint_for({"batch_size", "train_batch_size", "global_batch_size", "total_batch_size"})
      .field("micro_batch", &TrainSection::micro_batch,
             "Samples per forward pass on one rank; auto: the largest size that fits into memory, "
             "found in the first step.",
             if_given<Auto>(at_least<int64_t>(1)))
      .hint_for({"per_device_train_batch_size", "per_gpu_train_batch_size", "micro_batch_size",
                 "train_micro_batch_size_per_gpu", "device_batch_size", "local_batch_size"})
      .field("gradient_accumulation_steps", &TrainSection::gradient_accumulation_steps,
             "Micro-batches of each rank per optimizer step; default: derived from batch and "
             "micro_batch.",
             if_given<Auto>(at_least<int64_t>(1)))
      .hint_for({"gradient_accumulation", "accumulate_grad_batches", "accumulation_steps",
                 "grad_accum_steps", "grad_accumulation_steps", "grad_accum"})
      .field("max_grad_norm", &TrainSection::max_grad_norm, "Clip gradients to this total norm.",
             if_given<std::optional>(more_than(0.0)))
      .hint_for({"gradient_clip_val", "gradient_clipping", "clip_grad_norm", "grad_clip",
                 "grad_norm_clip", "clip_norm", "grad_clip_norm", "gradient_clip"})
      .field("max_grad_value", &TrainSection::max_grad_value,
             "Clip each gradient element to this size.", if_given<std::optional>(more_than(0.0)))
      .hint_for({"clip_grad_value", "clip_value", "grad_clip_value"})
      .field("freeze", &TrainSection::freeze,
             "Name patterns of parameters to freeze, such as '*.embeddings.*'.")
      .hint_for({"freeze_layers", "frozen_layers", "freeze_parameters"})
      .field(
          "activation_checkpointing", &TrainSection::activation_checkpointing,
          "What to store of each block of the model; backward recomputes the rest, with the same "
          "results. selective: outputs of matrix products, convolutions and fused attention; less "
          "memory for little computation. blocks: only the block's input; much less memory for a "
          "third more computation.")
      .on_resume(Change::kFree)
      .hint_for({"gradient_checkpointing", "grad_checkpointing", "use_gradient_checkpointing"},
                "blocks")
      .field("activation_cpu_offload", &TrainSection::activation_cpu_offload,
             "On a GPU, with activation_checkpointing: keep the input of each block in memory of "
             "the host until backward. Saves one activation of the residual stream per block; "
             "copies run beside the computation. For long sequences and deep models.")
      .on_resume(Change::kFree)
      .hint_for({"cpu_checkpointing", "activation_offloading", "enable_activation_offloading",
                 "activation_checkpointing_offload", "activation_offload"})
      .field("deterministic", &TrainSection::deterministic,
             "Refuse operators without a deterministic implementation.")
      .hint_for({"full_determinism", "use_deterministic_algorithms"})
      .check(&check_train);
}

Schema<EvalSection> EvalSection::schema() {
  return Schema<EvalSection>()
      .field("every", &EvalSection::every,
             "Period of evaluations, besides the one at the end of the run.", recurring())
      .hint_for(
          {"eval_steps", "eval_interval", "eval_every", "evaluation_steps", "val_check_interval"},
          "{} steps")
      .hint_for({"eval_strategy", "evaluation_strategy"},
                "epoch>1 epoch|steps>500 steps|no>never|1 epoch")
      .hint_for({"check_val_every_n_epoch", "eval_epochs"}, "{} epochs")
      .field("at_start", &EvalSection::at_start, "Evaluate before the first step.")
      .hint_for({"eval_on_start", "eval_first"})
      .field("batch", &EvalSection::batch, "Samples per forward pass; auto: train's micro_batch.",
             if_given<Auto>(at_least<int64_t>(1)))
      .hint_for({"eval_batch_size", "per_device_eval_batch_size", "per_gpu_eval_batch_size",
                 "val_batch_size", "test_batch_size"})
      .field("metrics", &EvalSection::metrics, "Metrics besides the loss.")
      .on_resume(Change::kFree)
      .hint_for({"metric", "eval_metric", "eval_metrics"}, "[{}]")
      .hint_for({"acc", "accuracy"}, "[accuracy]");
}

Schema<KeepSection> KeepSection::schema() {
  return Schema<KeepSection>()
      .field("last", &KeepSection::last, "Number of newest checkpoints to keep.",
             at_least<int64_t>(1))
      .on_resume(Change::kFree)
      .hint_for({"save_total_limit", "total_limit", "max_checkpoints", "keep_last_n",
                 "keep_checkpoints", "max_to_keep"})
      .field("best", &KeepSection::best, "Number of best checkpoints to keep in addition.",
             at_least<int64_t>(0))
      .on_resume(Change::kFree)
      .hint_for({"save_top_k"})
      .hint_for({"load_best_model_at_end", "save_best", "save_best_only"}, "1")
      .field("metric", &KeepSection::metric, "Metric that ranks the best checkpoints.")
      .on_resume(Change::kFree)
      .renamed_from("by")
      .hint_for({"metric_for_best_model", "monitor"},
                "eval_loss>eval/loss|val_loss>eval/loss|loss>eval/loss|eval/{}")
      .field("mode", &KeepSection::mode, "Whether higher or lower is better; auto: by the metric.")
      .on_resume(Change::kFree)
      .hint_for({"greater_is_better"}, "true>max|false>min|max")
      .check(&check_keep);
}

Schema<CheckpointSection> CheckpointSection::schema() {
  return Schema<CheckpointSection>()
      .field("every", &CheckpointSection::every, "Period of checkpoints.", recurring())
      .on_resume(Change::kFree)
      .hint_for({"save_steps", "save_every", "save_interval", "save_freq", "checkpoint_every",
                 "checkpoint_interval", "every_n_steps", "every_n_train_steps"},
                "{} steps")
      .hint_for({"checkpointing_steps"}, "epoch>1 epoch|{} steps")
      .hint_for({"save_strategy"}, "epoch>1 epoch|steps>500 steps|no>never|1 epoch")
      .field("at_end", &CheckpointSection::at_end, "Save at the end of training.")
      .on_resume(Change::kFree)
      .hint_for({"save_last", "save_final"})
      .field(
          "async", &CheckpointSection::async,
          "Write in the background during training, at the cost of a copy of the state in memory.")
      .on_resume(Change::kFree)
      .hint_for({"async_save", "save_async"})
      .field("on_error", &CheckpointSection::on_error, "Whether a failed save stops the run.")
      .on_resume(Change::kFree)
      .field("deadline", &CheckpointSection::deadline,
             "Time limit of this process, such as `4 h`: it saves and stops before. "
             "SLURM_JOB_END_TIME is respected as well.",
             if_given<std::optional>(clock_time()))
      .on_resume(Change::kFree)
      .field("keep", &CheckpointSection::keep, "Checkpoints to keep.")
      .field("resume", &CheckpointSection::resume,
             "auto: from the newest valid checkpoint of the run folder; never; or a path.")
      .on_resume(Change::kFree)
      .hint_for({"resume_from_checkpoint", "resume_from", "resume_checkpoint", "ckpt_path"},
                "true>auto|True>auto|last>auto|false>never|False>never|{}")
      .field("resume_step", &CheckpointSection::resume_step,
             "Steps of a checkpoint of Accelerate, which does not record them; auto: from its "
             "optimizer or scheduler.",
             if_given<Auto>(between<int64_t>(0, int64_t{1} << 40)))
      .on_resume(Change::kFree)
      .check(&check_resume_step);
}

Schema<LogSection> LogSection::schema() {
  return Schema<LogSection>()
      .field("every", &LogSection::every, "Period of log lines and of values for trackers.",
             recurring())
      .on_resume(Change::kFree)
      .hint_for({"logging_steps", "log_every_n_steps", "log_interval", "log_every", "log_steps",
                 "logging_interval", "print_every"},
                "{} steps")
      .field("histograms", &LogSection::histograms, "Period of weight histograms for trackers.",
             recurring())
      .on_resume(Change::kFree)
      .field("images", &LogSection::images,
             "Number of images of the first batch, after transforms, for trackers and the report.",
             between<int64_t>(0, 64))
      .on_resume(Change::kFree)
      .field("system", &LogSection::system, "Log CPU, memory, disk and GPU use.")
      .on_resume(Change::kFree)
      .hint_for({"log_system_metrics"})
      .field("plan", &LogSection::plan,
             "Estimate memory and compute before the start, as `accel-run plan`, and compare with "
             "the actual values after the first step and at the end.")
      .on_resume(Change::kFree);
}

Schema<ProfileSection> ProfileSection::schema() {
  return Schema<ProfileSection>()
      .field("steps", &ProfileSection::steps,
             "The step to profile, or the first and the last: `[10, 13]`; empty: none. Profiled "
             "steps are slower; results stay the same.",
             profiled_steps())
      .on_resume(Change::kFree)
      .field("operators", &ProfileSection::operators, "Number of operators listed in the log.",
             between<int64_t>(0, 1000))
      .on_resume(Change::kFree)
      .field("shapes", &ProfileSection::shapes, "Group operator calls by input shapes.")
      .on_resume(Change::kFree)
      .field("memory", &ProfileSection::memory, "Record allocations and frees.")
      .on_resume(Change::kFree)
      .check(&check_profile);
}

}  // namespace accel
