#include "runner/job/build_data.h"

#include "data/mixture.h"

namespace accel {
namespace {

std::shared_ptr<const Dataset> open_dataset(const DatasetParts& parts,
                                            const DatasetContext& context) {
  std::vector<DataPart> opened;
  for (const DatasetPart& part : parts.parts) {
    opened.push_back({build(part.component, context), part.extra.weight, part.extra.limit});
  }
  return combine(std::move(opened));
}

LoaderOptions train_options(const Job& job) {
  LoaderOptions options;
  options.batch = job.batches.batch;
  options.micro_batch = job.batches.micro_batch;
  options.workers = job.recipe.data.loader.workers;
  options.prefetch = job.recipe.data.loader.prefetch;
  options.shuffle = job.recipe.data.loader.shuffle;
  options.group_by_length = job.recipe.data.loader.group_by_length;
  options.drop_last = job.recipe.data.loader.drop_last;
  options.seed = static_cast<uint64_t>(job.recipe.seed);
  options.rank = job.group->rank();
  options.world = job.group->world();
  options.sharing = job.recipe.data.loader.dispatch_batches ? Sharing::kSlices : Sharing::kBatches;
  options.even_batches = job.recipe.data.loader.even_batches;
  return options;
}

LoaderOptions eval_options(const Job& job) {
  LoaderOptions options = train_options(job);
  options.micro_batch = job.recipe.eval.batch.value_or(job.batches.micro_batch);
  options.batch = options.micro_batch * options.world;
  options.shuffle = options.group_by_length = options.drop_last = options.repeat = false;
  options.sharing = Sharing::kBatches;
  options.even_batches = false;  // each sample counts once
  return options;
}

/// An epoch that is left out whole is told where the recipe has it so.
void check_some_step(const Job& job, int64_t samples) {
  const LoaderSection& loader = job.recipe.data.loader;
  const int64_t batch = job.batches.batch;
  if (!loader.drop_last || samples == 0 || samples >= batch) return;
  const Node& data = job.resolved.find("data")->node;
  throw RecipeError(
      {{data.find("loader")->node.find("drop_last")->node.where,
        "no step is left: 'drop_last' leaves out an epoch's last, short batch, and "
        "the training data has " +
            std::to_string(samples) + " samples for batches of " + std::to_string(batch),
        "lower 'train.batch', or leave 'drop_last' out"}});
}

std::unique_ptr<Loader> open_loader(const Job& job, const DatasetParts& parts, bool train,
                                    int64_t& samples, std::string& fingerprint) {
  const auto seed = static_cast<uint64_t>(job.recipe.seed);
  std::shared_ptr<const Dataset> dataset = open_dataset(parts, {.seed = seed, .train = train});
  samples = dataset->size();
  fingerprint = dataset->fingerprint();
  if (train) check_some_step(job, samples);
  auto transforms = build_transforms(job.recipe.data.transform, dataset->shape(), train);
  return std::make_unique<Loader>(std::move(dataset), std::move(transforms),
                                  train ? train_options(job) : eval_options(job));
}

std::string words(const std::vector<std::string>& labels) {
  return detail::inline_text(Codec<std::vector<std::string>>::write(labels));
}

std::string shape_text(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "[" : ", ") + std::to_string(size);
  return text.empty() ? "[]" : text + "]";
}

/// What a model is built for is the training data. Texts may be of other lengths, and some models
/// take images of other heights and widths.
void check_same_shape(const DataShape& train, const DataShape& eval) {
  if (train.vocab != 0 || train.input == eval.input) return;
  const bool images = train.input.size() == 3 && eval.input.size() == 3;
  if (images && train.input[0] == eval.input[0]) return;
  throw DataError("the training data has samples of the shape " + shape_text(train.input) +
                      ", the eval data of the shape " + shape_text(eval.input),
                  "give both the same sizes");
}

/// Labels are numbered by the data they come from: both parts must number them alike.
void check_same_meaning(const DataShape& train, const DataShape& eval) {
  if (!train.labels.empty() && !eval.labels.empty() && train.labels != eval.labels) {
    throw DataError("the training data has the labels " + words(train.labels) +
                        ", the eval data has " + words(eval.labels),
                    "give both the same 'labels', in the same order");
  }
  if (eval.classes > train.classes || eval.vocab > train.vocab) {
    const bool tokens = eval.vocab > train.vocab;
    throw DataError(std::string("the eval data has ") + (tokens ? "token " : "class ") +
                        std::to_string((tokens ? eval.vocab : eval.classes) - 1) +
                        ", which the training data has not",
                    tokens ? "give both the same 'vocab'" : "give both the same 'labels'");
  }
}

void check_one_size(const DataShape& shape) {
  for (const int64_t size : shape.input) {
    if (size != 0) continue;
    throw DataError("the samples have different sizes and cannot be stacked",
                    "add a transform such as {type: resize, size: [32, 32]}");
  }
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
  job.train_loader =
      open_loader(job, job.recipe.data.train, true, job.train_samples, job.data_fingerprint);
  job.data = job.train_loader->shape();
  check_one_size(job.data);
  if (!job.recipe.data.eval.parts.empty()) open_eval_data(job);
}

void open_eval_data(Job& job) {
  std::string unused;
  job.eval_loader = open_loader(job, job.recipe.data.eval, false, job.eval_samples, unused);
  check_one_size(job.eval_loader->shape());
  check_same_shape(job.data, job.eval_loader->shape());
  check_same_meaning(job.data, job.eval_loader->shape());
}

}  // namespace accel
