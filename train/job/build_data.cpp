#include "train/job/build_data.h"

#include <algorithm>

#include "core/base/text.h"
#include "train/job/open_datasets.h"

namespace accel {
namespace {

CurriculumPlan curriculum_of(const Job& job) {
  const CurriculumSection& section = job.recipe.data.loader.curriculum;
  if (!section.until) return {};
  const auto samples = static_cast<double>(std::max<int64_t>(job.train_samples, 1));
  return {.by = section.by,
          .until = section.until->value,
          .until_epochs = section.until->unit == Duration::Unit::kEpochs,
          .start = section.start.samples > 0
                       ? std::min(static_cast<double>(section.start.samples) / samples, 1.0)
                       : section.start.percent / 100,
          .pacing = section.pacing};
}

LoaderOptions train_options(const Job& job) {
  LoaderOptions options;
  options.batch = job.batches.batch;
  options.micro_batch = job.batches.micro_batch;
  options.workers = job.recipe.data.loader.workers;
  options.prefetch = job.recipe.data.loader.prefetch;
  options.shuffle = job.recipe.data.loader.shuffle;
  options.shuffle_block_size = job.recipe.data.loader.shuffle_block_size.value_or(0);
  options.group_by_length = job.recipe.data.loader.group_by_length;
  options.curriculum = curriculum_of(job);
  options.drop_last = job.recipe.data.loader.drop_last;
  options.repeat = job.recipe.compat.use_seedable_sampler;  // else the next order is not known yet
  options.seed = static_cast<uint64_t>(job.recipe.seed);
  options.rank = job.mesh.data->rank();
  options.world = job.mesh.data->world();
  options.sharing = job.recipe.data.loader.dispatch_batches ? Sharing::kSlices : Sharing::kBatches;
  options.even_batches = job.recipe.data.loader.even_batches || fills_idle_ranks(job);
  options.all_ranks = job.recipe.accelerator.sync_batch_norm;
  return options;
}

LoaderOptions eval_options(const Job& job) {
  LoaderOptions options = train_options(job);
  options.micro_batch = job.recipe.eval.batch.value_or(job.batches.micro_batch);
  // As many micro-batches as the stages of a pipeline can work on.
  options.batch = options.micro_batch * options.world * job.mesh.pipeline->world();
  options.shuffle = options.group_by_length = options.drop_last = options.repeat = false;
  options.shuffle_block_size = 0;
  options.curriculum = {};
  options.sharing = Sharing::kBatches;
  options.even_batches = data_ranks_communicate_in_passes(job);  // else a rank may have no batch
  return options;
}

/// Refuses a `drop_last` that drops the whole epoch, at its position in the recipe.
void check_drop_last(const Job& job, int64_t samples) {
  const LoaderSection& loader = job.recipe.data.loader;
  const int64_t batch = job.batches.batch;
  if (!loader.drop_last || samples == 0 || samples >= batch) return;
  const Node& data = job.resolved.find("data")->node;
  throw RecipeError(
      {{data.find("loader")->node.find("drop_last")->node.where,
        text("'drop_last' leaves no batch: the training data has {} samples for batches of {}",
             samples, batch),
        "lower 'train.batch', or leave 'drop_last' out"}});
}

/// Ranks have separate dropout generators.
void check_one_rank(const Job& job) {
  const bool shared = job.recipe.compat.dataloader_generator == DataloaderGenerator::kShared;
  if (!shared || job.num_ranks == 1) return;
  throw RecipeError(
      {{recipe_place(job.resolved, "compat.dataloader_generator"),
        text("'dataloader_generator' shared requires one process, but there are {}: ranks have "
             "separate dropout generators, unlike a script's",
             job.num_ranks),
        "leave it out, or train in one process"}});
}

std::unique_ptr<Loader> open_loader(const Job& job, std::shared_ptr<const Dataset> dataset,
                                    bool train) {
  auto transforms = build_transforms(job.recipe.data.transform, dataset->shape(), train);
  return std::make_unique<Loader>(std::move(dataset), std::move(transforms),
                                  train ? train_options(job) : eval_options(job));
}

std::string list_text(const std::vector<std::string>& labels) {
  return detail::inline_text(Codec<std::vector<std::string>>::write(labels));
}

/// The model is built for the training data. Texts may have other lengths, and images other heights
/// and widths, which validate_input() checks.
void check_same_shape(const DataShape& train, const DataShape& eval) {
  if (train.vocab != 0 || train.input == eval.input) return;
  const bool images = train.input.size() == 3 && eval.input.size() == 3;
  if (images && train.input[0] == eval.input[0]) return;
  throw DataError(text("samples of the training data have the shape {}, those of the eval data {}",
                       to_string(train.input), to_string(eval.input)),
                  "give both the same sizes");
}

std::string classes_text(const DataShape& shape) {
  return shape.labels.empty() ? text("the numbers 0 to {}", shape.classes - 1)
                              : text("the labels {}", list_text(shape.labels));
}

/// Names that one dataset numbered by their order are no numbers of the other.
void check_found_labels(const DataShape& train, const DataShape& eval) {
  const bool both = train.classes > 0 && eval.classes > 0;
  if (!both || train.labels.empty() == eval.labels.empty()) return;
  if (!(train.labels.empty() ? eval : train).labels_found) return;
  throw DataError(text("the classes of the training data are {}, those of the eval data {}",
                       classes_text(train), classes_text(eval)),
                  "write the labels the same way in both, or give both the same 'labels'");
}

/// Labels are numbered per dataset: training and eval data must number them the same.
void check_same_meaning(const DataShape& train, const DataShape& eval) {
  if (!train.labels.empty() && !eval.labels.empty() && train.labels != eval.labels) {
    throw DataError(text("the training data has the labels {}, the eval data {}",
                         list_text(train.labels), list_text(eval.labels)),
                    "give both the same 'labels', in the same order");
  }
  check_found_labels(train, eval);
  if (train.target_type == DType::kF32 && train.target != eval.target) {
    throw DataError(text("targets of the training data have the shape {}, those of the eval data "
                         "{}",
                         to_string(train.target), to_string(eval.target)),
                    "give both the same 'labels' or columns");
  }
  if (eval.classes > train.classes || eval.vocab > train.vocab) {
    const bool tokens = eval.vocab > train.vocab;
    throw DataError(text("the eval data has {} {}, which the training data lacks",
                         tokens ? "token" : "class", (tokens ? eval.vocab : eval.classes) - 1),
                    tokens ? "give both the same 'vocab_size'" : "give both the same 'labels'");
  }
}

void check_one_size(const DataShape& shape) {
  for (const int64_t size : shape.input) {
    if (size != 0) continue;
    throw DataError("the samples have different sizes and cannot be stacked",
                    "add a transform such as {type: resize, size: [32, 32]}");
  }
}

void set_eval_data(Job& job, std::shared_ptr<const Dataset> dataset) {
  job.eval_samples = dataset->size();
  job.eval_loader = open_loader(job, std::move(dataset), false);
  check_one_size(job.eval_loader->shape());
  check_same_shape(job.data, job.eval_loader->shape());
  check_same_meaning(job.data, job.eval_loader->shape());
}

}  // namespace

std::vector<std::unique_ptr<Transform>> build_transforms(const std::vector<Ref<Transform>>& refs,
                                                         DataShape shape, bool train) {
  std::vector<std::unique_ptr<Transform>> transforms;
  for (const Ref<Transform>& ref : refs) {
    transforms.push_back(build(ref, TransformContext{shape, train}));
    shape = transforms.back()->shape();
  }
  return transforms;
}

void build_data(Job& job) {
  check_one_rank(job);
  OpenedData opened = open_training_data(job);
  job.train_samples = opened.train->size();
  job.data_fingerprint = opened.train->fingerprint();
  job.held_out = std::move(opened.held_out);
  job.fitted_values = std::move(opened.fitted);
  job.fill_notes = std::move(opened.notes);
  check_drop_last(job, job.train_samples);
  job.train_loader = open_loader(job, std::move(opened.train), true);
  job.data = job.train_loader->shape();
  check_one_size(job.data);
  if (opened.eval) {
    set_eval_data(job, std::move(opened.eval));
  } else if (!job.recipe.data.eval.parts.empty()) {
    open_eval_data(job);
  }
}

void open_eval_data(Job& job) {
  if (!job.recipe.data.split.eval) return set_eval_data(job, open_separate_data(job));
  OpenedData opened = open_training_data(job);
  if (!job.data_fingerprint.empty() && opened.train->fingerprint() != job.data_fingerprint) {
    throw DataError(
        "the training data has changed since the checkpoint: other samples would be "
        "held out than in training",
        "restore the old data, or name a file with --data path=...");
  }
  set_eval_data(job, std::move(opened.eval));
}

}  // namespace accel
