// Evaluation and prediction with a trained model: its data, its job, one line of JSON per sample.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/api/data_shape.h"
#include "core/api/dataset.h"
#include "core/recipe/node.h"
#include "core/recipe/registry.h"
#include "infer/trained_model.h"
#include "train/job/data_ranks.h"
#include "train/job/job.h"
#include "train/job/staged_forward.h"

namespace accel {

/// Whether this option of a dataset names its file, so that `dataset_with` replaces the data.
bool names_data_file(std::string_view option);

/// The first eval dataset of a resolved recipe, else the first training dataset, with the options
/// `words`, such as "path=test.csv". With a new path, split and limit of the recipe are dropped and
/// classes are numbered as in `trained`, unless `words` sets them. With a new type, options that
/// the type lacks in `registry` are dropped. Throws RecipeError for invalid words.
Node dataset_with(const Node& recipe, const std::vector<std::string>& words,
                  const DataShape& trained, const Registry& registry);

/// The recipe with `dataset` as its eval data, without held-out samples.
Node with_eval_data(Node recipe, Node dataset);

/// A trained model, and the recipe and data schema for its evaluation.
struct EvaluationParts {
  RecipeOptions recipe;  ///< with eval data
  Node resolved;
  DataShape data;  ///< of the training data
  std::unique_ptr<Model> model;
  int64_t world = 1;             ///< number of ranks of the run, which determines its batches
  std::string fitted_values;     ///< of the training data, for the eval data
  std::string data_fingerprint;  ///< of the training data, for held-out samples
  at::Device device = at::kCPU;  ///< where the model will be
};

/// Opens the eval data and builds the components for evaluate(), without optimizers. Batches,
/// precision and threads are those of the run, for the same numbers. Throws RecipeError and
/// DataError.
std::unique_ptr<Job> evaluation_job(EvaluationParts parts, const Registry& registry);

/// Opens the eval data of this recipe and resolved recipe instead of that of a job with the same
/// model. All ranks call it. Throws RecipeError and DataError.
void replace_eval_data(Job& job, const RecipeOptions& recipe, const Node& resolved);

struct PredictOptions {
  bool probabilities = false;  ///< of all classes, not only the likeliest
  at::Device device = at::kCPU;
  StagedForward staged = {};  ///< of a model in pipeline stages; null: the whole model is here
  DataRanks ranks = {};       ///< that divide the samples
};

/// Throws Error (kRecipe) for a task without predictions per sample.
void check_predicts(const TrainedModel& trained);

/// Calls `line`, on all ranks, for each sample in the dataset's order, with the transforms, batch
/// size and precision of an evaluation. Classification: the likeliest class and its probability;
/// regression: the numbers; causal_lm: the text's mean loss; seq2seq: the generated target;
/// contrastive: the embeddings of image and text, and their similarity. Throws DataError for
/// samples of another schema than the training data.
void predict(const TrainedModel& trained, const std::shared_ptr<const Dataset>& dataset,
             const PredictOptions& options, const std::function<void(const std::string&)>& line);

}  // namespace accel
