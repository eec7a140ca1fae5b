#include "runner/loop/predict.h"

#include <c10/core/GradMode.h>

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/targets.h"
#include "models/fitted_model.h"
#include "runner/job/build_data.h"
#include "runner/job/build_strategy.h"
#include "runner/loop/to_batch.h"

namespace accel {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kClassification = "classification";
constexpr auto kRegression = "regression";
constexpr auto kCausalLm = "causal_lm";
constexpr auto kTokenClassification = "token_classification";

std::string class_name(const DataShape& data, int64_t number) {
  return data.labels.empty() ? std::to_string(number) : data.labels.at(static_cast<size_t>(number));
}

/// A number as its float's shortest text, not as the double that it is widened to.
Json number_json(double value) {
  if (!std::isfinite(value)) return nullptr;
  std::array<char, 32> text;
  const auto end = std::to_chars(text.begin(), text.end(), static_cast<float>(value)).ptr;
  return Json::parse(text.begin(), end);
}

void add_class(const DataShape& data, const at::Tensor& logits, bool all, Json& line) {
  const at::Tensor chances = logits.softmax(0);
  const int64_t best = chances.argmax().item<int64_t>();
  if (data.labels.empty()) {
    line["class"] = best;
  } else {
    line["class"] = class_name(data, best);
  }
  line["probability"] = number_json(chances[best].item<double>());
  if (!all) return;
  Json each = Json::object();
  for (int64_t i = 0; i < chances.size(0); ++i) {
    each[class_name(data, i)] = number_json(chances[i].item<double>());
  }
  line["probabilities"] = std::move(each);
}

/// The label of each word: `scores` are those of a text's tokens, and `targets` count at words.
void add_tags(const DataShape& data, const at::Tensor& scores, const at::Tensor& targets,
              Json& line) {
  const at::Tensor best = scores.argmax(-1);
  Json tags = Json::array();
  for (int64_t i = 0; i < targets.size(0); ++i) {
    if (targets[i].item<int64_t>() == kIgnoredTarget) continue;
    const int64_t label = best[i].item<int64_t>();
    data.labels.empty() ? tags.push_back(label) : tags.push_back(class_name(data, label));
  }
  line["tags"] = std::move(tags);
}

void add_numbers(const at::Tensor& output, Json& line) {
  const at::Tensor flat = output.flatten();
  Json list = Json::array();
  for (int64_t i = 0; i < flat.size(0); ++i) list.push_back(number_json(flat[i].item<double>()));
  line["prediction"] = list.size() == 1 ? list[0] : list;
}

/// `output` and `targets`: of one sample.
void add_output(const TrainedModel& trained, const at::Tensor& output, const at::Tensor& targets,
                const PredictOptions& options, Json& line) {
  if (trained.recipe.task.type == kTokenClassification) {
    add_tags(trained.data, output, targets, line);
  } else if (trained.recipe.task.type == kClassification) {
    add_class(trained.data, output, options.probabilities, line);
  } else {
    add_numbers(output, line);
  }
}

/// Each sample is a text of its own, so a batch is one sample.
void add_loss(const Evaluation& result, double tokens, Json& line) {
  const double loss = result.loss.item<double>();
  line["loss"] = number_json(loss);
  line["perplexity"] = number_json(std::exp(loss));
  line["tokens"] = static_cast<int64_t>(tokens);
}

void check_same_samples(const DataShape& trained, const DataShape& given) {
  const bool lengths_vary = trained.padding.has_value() && given.padding.has_value();
  if (trained.input_type == given.input_type && (lengths_vary || trained.input == given.input) &&
      given.vocab <= trained.vocab) {
    return;
  }
  const auto words = [](const DataShape& shape) {
    return std::string(name_of(shape.input_type)) + " " + to_string(shape.input) +
           (shape.vocab > 0 ? " of " + std::to_string(shape.vocab) + " tokens" : "");
  };
  throw DataError(
      "a sample of the input is " + words(given) + ", but the model was trained on " +
          words(trained),
      "give it data of the same columns, size or tokenizer; --data changes options of the dataset");
}

LoaderOptions loader_options(const TrainedModel& trained, bool one_by_one) {
  const RecipeOptions& recipe = trained.recipe;
  const BatchPlan plan = plan_batches(shared_train(recipe, trained.world), trained.world);
  LoaderOptions options;
  options.micro_batch = one_by_one ? 1 : recipe.eval.batch.value_or(plan.micro_batch);
  options.batch = options.micro_batch;
  options.workers = recipe.data.loader.workers;
  options.prefetch = recipe.data.loader.prefetch;
  options.shuffle = options.repeat = options.even_batches = false;
  options.seed = static_cast<uint64_t>(recipe.seed);
  return options;
}

}  // namespace

void check_predicts(const TrainedModel& trained) {
  const std::string& task = trained.recipe.task.type;
  for (const char* known : {kClassification, kRegression, kCausalLm, kTokenClassification}) {
    if (task == known) return;
  }
  throw Error(ExitCode::kRecipe, "'predict' has nothing to tell of the task '" + task + "'",
              "it does classification, regression, causal_lm and token_classification; 'evaluate' "
              "does any");
}

void predict(const TrainedModel& trained, std::shared_ptr<const Dataset> dataset,
             const PredictOptions& options, const std::function<void(const std::string&)>& line) {
  const bool texts = trained.recipe.task.type == kCausalLm;
  Loader loader(dataset,
                build_transforms(trained.recipe.data.transform, dataset->shape(), /*train=*/false),
                loader_options(trained, texts));
  check_same_samples(trained.data, loader.shape());
  check_samples(*trained.model, loader.shape());
  const auto precision =
      make_precision(trained.recipe.accelerator.mixed_precision, at::kCPU, ScalerOptions{});
  const auto task = build(trained.recipe.task, TaskContext{trained.data});
  const c10::NoGradGuard no_grad;
  while (loader.has_next()) {
    const Window window = loader.next();
    const WindowBatches batches(window);
    for (const Batch& batch : batches.list()) {
      const AutocastScope casts = precision->autocast();
      const Evaluation result = texts ? task->evaluate(*trained.model, batch)
                                      : Evaluation{{}, trained.model->forward_batch(batch)};
      for (int64_t i = 0; i < batch.size(); ++i) {
        const int64_t row = batch.ids[static_cast<size_t>(i)];
        Json out = {{"row", row}};
        if (const std::string name = dataset->name(row); !name.empty()) out["name"] = name;
        if (texts) {
          add_loss(result, task->weight(batch), out);
        } else {
          add_output(trained, result.output[i].to(at::kFloat), batch.targets[i], options, out);
        }
        line(out.dump(-1, ' ', false, Json::error_handler_t::replace));
      }
    }
  }
}

}  // namespace accel
