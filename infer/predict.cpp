#include "infer/predict.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <nlohmann/json.hpp>

#include "core/api/targets.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/codec.h"
#include "core/recipe/deprecated_names.h"
#include "core/recipe/override.h"
#include "infer/answer_lines.h"
#include "infer/model_texts.h"
#include "models/layers/input_spec.h"
#include "models/layers/module_state.h"
#include "train/job/build_answers.h"
#include "train/job/build_completions.h"
#include "train/job/build_data.h"
#include "train/job/build_job.h"
#include "train/job/build_strategy.h"
#include "train/job/model_fit.h"
#include "train/job/torch_setup.h"
#include "train/step/device_batches.h"
#include "train/tasks/generates_targets.h"
#include "train/tasks/multi_label.h"

namespace accel {
namespace {

using Json = nlohmann::ordered_json;

/// Null for a missing or empty section.
const Node* first_in(const Node& recipe, const char* section) {
  const Node::Entry* data = recipe.find("data");
  const Node::Entry* parts = data ? data->node.find(section) : nullptr;
  if (!parts || parts->node.null()) return nullptr;
  const Node::List* list = parts->node.list();
  if (!list) return &parts->node;
  return list->empty() ? nullptr : &list->front();
}

void drop(Node& section, std::initializer_list<const char*> keys) {
  std::erase_if(*section.map(), [&](const Node::Entry& entry) {
    return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return entry.key == key; });
  });
}

/// Drops options that select a part of the data, such as split and limit.
void take_whole(Node& dataset, const Node& path) {
  drop(dataset, {"from", "to", "limit", "head", "weight"});
  std::error_code none;
  const bool is_file = path.scalar() && std::filesystem::is_regular_file(path.scalar()->text, none);
  if (is_file) drop(dataset, {"config", "split", "files"});
  // A folder of new images need not have the splits of the training data.
  const Node::Entry *type = dataset.find("type"), *split = dataset.find("split");
  const bool images = type && type->node.scalar() && type->node.scalar()->text == "image_folder";
  if (!images || !path.scalar() || !split || !split->node.scalar()) return;
  const auto inner = std::filesystem::path(path.scalar()->text) / split->node.scalar()->text;
  if (!std::filesystem::is_directory(inner, none)) drop(dataset, {"split"});
}

/// Drops the options that the type does not have; an unknown type is reported later.
void change_type(Node& dataset, const Node& type, const Registry& registry) {
  const auto& items = registry.of<Dataset>().items();
  const auto found = type.scalar() ? items.find(type.scalar()->text) : items.end();
  if (found == items.end()) return;
  const std::vector<FieldInfo>& fields = found->second.fields;
  std::erase_if(*dataset.map(), [&](const Node::Entry& entry) {
    return std::none_of(fields.begin(), fields.end(),
                        [&](const FieldInfo& field) { return field.name == entry.key; });
  });
  dataset.map()->insert(dataset.map()->begin(), {"type", {}, type});
}

/// Fixes labels that a dataset would otherwise collect from the new data.
void fix_labels(Node& dataset, const DataShape& trained) {
  Node::Entry* labels = dataset.find("labels");
  const bool open =
      labels && (labels->node.null() || (labels->node.list() && labels->node.list()->empty()));
  const Node::Entry* target = dataset.find("target");
  const bool is_columns = target && target->node.list() && target->node.list()->size() > 1;
  if (open && !is_columns && !trained.labels.empty()) {
    labels->node = Codec<std::vector<std::string>>::write(trained.labels);
  }
}

constexpr auto kClassification = "classification";
constexpr auto kRegression = "regression";
constexpr auto kCausalLm = "causal_lm";
constexpr auto kTokenClassification = "token_classification";
constexpr auto kQuestionAnswering = "question_answering";
constexpr auto kSeq2Seq = "seq2seq";
constexpr auto kContrastive = "contrastive";

std::string class_name(const DataShape& data, int64_t number) {
  return data.labels.empty() ? std::to_string(number) : data.labels.at(static_cast<size_t>(number));
}

/// The shortest text of a float, not of the double it converts to.
Json number_json(double value) {
  const auto rounded = static_cast<float>(value);
  if (!std::isfinite(rounded)) return nullptr;
  std::array<char, 32> text;
  const auto end = std::to_chars(text.begin(), text.end(), rounded).ptr;
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

/// The label of each word, from the `scores` of a text's tokens where `targets` are unmasked.
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

void add_labels(const TrainedModel& trained, const at::Tensor& logits, bool all, Json& line) {
  Diagnostics problems;
  const Registry none;
  Reading reading{problems, none};
  const auto options =
      MultiLabelOptions::schema().read(detail::without_type(trained.recipe.task.resolved), reading);
  problems.check();
  const at::Tensor chances = logits.sigmoid();
  const std::vector<double> thresholds = options.thresholds(chances.size(0));
  Json labels = Json::array(), each = Json::object();
  for (int64_t i = 0; i < chances.size(0); ++i) {
    const double chance = chances[i].item<double>();
    const bool named = !trained.data.labels.empty();
    if (chance > thresholds[static_cast<size_t>(i)]) {
      named ? labels.push_back(class_name(trained.data, i)) : labels.push_back(i);
    }
    each[class_name(trained.data, i)] = number_json(chance);
  }
  line["labels"] = std::move(labels);
  if (all) line["probabilities"] = std::move(each);
}

void add_numbers(const at::Tensor& output, Json& line) {
  const at::Tensor flat = output.flatten();
  Json list = Json::array();
  for (int64_t i = 0; i < flat.size(0); ++i) list.push_back(number_json(flat[i].item<double>()));
  line["prediction"] = list.size() == 1 ? list[0] : list;
}

/// The embeddings of an image and its text, [2, width], and the cosine of their angle.
void add_pair(const at::Tensor& embeddings, Json& line) {
  line["similarity"] = number_json(embeddings[0].dot(embeddings[1]).item<double>());
  const std::pair<const char*, int64_t> kParts[] = {{"image_embeds", 0}, {"text_embeds", 1}};
  for (const auto& [key, row] : kParts) {
    const at::Tensor values = embeddings[row].to(at::kCPU).contiguous();
    Json list = Json::array();
    for (int64_t i = 0; i < values.size(0); ++i) {
      list.push_back(number_json(values.const_data_ptr<float>()[i]));
    }
    line[key] = std::move(list);
  }
}

/// `output` and `targets` of one sample.
void add_output(const TrainedModel& trained, const at::Tensor& output, const at::Tensor& targets,
                const PredictOptions& options, Json& line) {
  if (trained.recipe.task.type == kTokenClassification) {
    add_tags(trained.data, output, targets, line);
  } else if (trained.recipe.task.type == kQuestionAnswering) {
    const at::Tensor span = output.to(at::kLong).flatten();
    line["first"] = span[0].item<int64_t>();
    line["last"] = span[1].item<int64_t>();
  } else if (trained.recipe.task.type == kClassification) {
    add_class(trained.data, output, options.probabilities, line);
  } else if (trained.recipe.task.type == kMultiLabelTask) {
    add_labels(trained, output, options.probabilities, line);
  } else if (trained.recipe.task.type == kContrastive) {
    add_pair(output, line);
  } else {
    add_numbers(output, line);
  }
}

/// Perplexity per text: a batch is one sample.
void add_loss(const at::Tensor& mean, double tokens, Json& line) {
  const double loss = mean.item<double>();
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
      text("a sample of the input is {}, but the model was trained on {}", words(given),
           words(trained)),
      "give it data of the same columns, size or tokenizer; --data changes options of the dataset");
}

LoaderOptions loader_options(const TrainedModel& trained, bool one_by_one, const DataRanks& ranks) {
  const RecipeOptions& recipe = trained.recipe;
  const BatchPlan plan = plan_batches(shared_train(recipe, trained.world), trained.world);
  LoaderOptions options;
  options.micro_batch = one_by_one ? 1 : recipe.eval.batch.value_or(plan.micro_batch);
  options.rank = ranks.rank;
  options.world = ranks.world;
  options.batch = options.micro_batch * options.world;
  options.workers = recipe.data.loader.workers;
  options.prefetch = recipe.data.loader.prefetch;
  options.shuffle = options.repeat = false;  // even batches: passes may communicate
  options.seed = static_cast<uint64_t>(recipe.seed);
  return options;
}

}  // namespace

bool names_data_file(std::string_view option) {
  return option == "path" || option == "inputs" || option == "images";
}

Node dataset_with(const Node& recipe, const std::vector<std::string>& words,
                  const DataShape& trained, const Registry& registry) {
  const Node* eval = first_in(recipe, "eval");
  const Node* found = eval ? eval : first_in(recipe, "train");
  Node dataset = found && found->map() ? *found : Node{Node::Map{}, {}};
  Diagnostics problems;
  History history;
  const auto names = DeprecatedNames::of_component("dataset", registry);
  Merging merging{history, problems, &names};
  std::vector<Override> overrides;
  int number = 0;
  for (const std::string& word : words) {
    overrides.push_back(parse_override(word, ++number, problems));
    names.replace(overrides.back(), problems, {&dataset});
    const std::vector<std::string>& path = overrides.back().path;
    if (path.size() != 1) continue;
    if (names_data_file(path[0])) take_whole(dataset, overrides.back().value);
    if (path[0] == "type") change_type(dataset, overrides.back().value, registry);
  }
  problems.check();
  fix_labels(dataset, trained);
  apply_overrides(dataset, std::move(overrides), merging);
  problems.check();
  print_warnings(problems.warnings());
  return dataset;
}

Node with_eval_data(Node recipe, Node dataset) {
  Node* data = &recipe.find("data")->node;
  if (Node::Entry* eval = data->find("eval")) {
    eval->node = std::move(dataset);
  } else {
    data->map()->push_back({"eval", {}, std::move(dataset)});
  }
  drop(*data, {"split"});
  return recipe;
}

std::unique_ptr<Job> evaluation_job(EvaluationParts parts, const Registry& registry) {
  auto job = std::make_unique<Job>();
  job->recipe = std::move(parts.recipe);
  job->resolved = std::move(parts.resolved);
  job->device = parts.device;
  job->watch = World{}.watch;
  job->batches = plan_batches(shared_train(job->recipe, parts.world), parts.world);
  set_up_torch(job->recipe, 1);
  job->data = std::move(parts.data);
  job->fitted_values = std::move(parts.fitted_values);
  job->data_fingerprint = std::move(parts.data_fingerprint);
  open_eval_data(*job);
  job->model = std::move(parts.model);
  job->parameters = parameters_of(*job->model);
  job->buffers = buffers_of(*job->model);
  job->task = build(job->recipe.task, TaskContext{job->data});
  job->task_models = job->task->models();
  for (const TaskModel& item : job->task_models) set_training(*item.model, false);
  check_eval_data_fits(*job);
  job->precision = make_precision(job->recipe.accelerator.mixed_precision, job->device,
                                  job->recipe.accelerator.grad_scaler);
  job->trainable_models = {job->model.get()};
  job->optimizers.push_back({kRecipeOptimizer, {}, {}, make_single(), nullptr});
  build_metrics(*job, registry);
  build_answers(*job);
  build_targets(*job, [&] { return texts_of(*job->model, job->resolved, job->data, nullptr); });
  return job;
}

void replace_eval_data(Job& job, const RecipeOptions& recipe, const Node& resolved) {
  job.recipe.data = recipe.data;
  job.resolved = resolved;
  open_eval_data(job);
  check_eval_data_fits(job);
  build_answers(job);
}

namespace {

/// Each line of texts whose lines all end.
void pass_on(const std::vector<std::string>& texts,
             const std::function<void(const std::string&)>& line) {
  for (const std::string& text : texts) {
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
      end = text.find('\n', begin);
      line(text.substr(begin, end - begin));
    }
  }
}

}  // namespace

void check_predicts(const TrainedModel& trained) {
  const std::string& task = trained.recipe.task.type;
  for (const char* known : {kClassification, kMultiLabelTask, kRegression, kCausalLm,
                            kTokenClassification, kQuestionAnswering, kSeq2Seq, kContrastive}) {
    if (task == known) return;
  }
  throw Error(ExitCode::kRecipe, text("'predict' does not support the task '{}'", task),
              "it supports classification, multi_label_classification, regression, causal_lm, "
              "token_classification, question_answering, seq2seq and contrastive; use 'evaluate'");
}

namespace {

/// `batch` with targets as the training data has them, which the task checks: rows to be predicted
/// have none, or those of another task.
Batch with_blank_targets(const Batch& batch, const DataShape& data) {
  std::vector<int64_t> shape = {batch.size()};
  shape.insert(shape.end(), data.target.begin(), data.target.end());
  Batch out = batch;
  out.targets = at::zeros(shape, at::TensorOptions(at::kFloat).device(batch.inputs.device()));
  return out;
}

/// The number of a sample, and its name if it has one.
Json row_json(const Dataset& dataset, int64_t row) {
  Json out = {{"row", row}};
  if (const std::string name = dataset.name(row); !name.empty()) out["name"] = name;
  return out;
}

std::string json_text_line(const Json& line) {
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

/// Writes the targets that an encoder-decoder generates.
class TargetLines {
 public:
  /// None for another task.
  static std::optional<TargetLines> of(const TrainedModel& trained, const Task& task) {
    const auto* generates = dynamic_cast<const GeneratesTargets*>(&task);
    if (!generates) return std::nullopt;
    return TargetLines(texts_of(*trained.model, trained.resolved, trained.data, nullptr),
                       generates->target_options());
  }

  /// A line for each of the first `count` samples of a batch.
  std::string lines(const Dataset& dataset, const Batch& batch, int64_t count) const {
    const std::vector<SampledCompletion> made = sample_targets(*texts_, options_, batch);
    std::string out;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      Json line = row_json(dataset, batch.ids[i]);
      line["prediction"] = made[i].text;
      out += json_text_line(line);
    }
    return out;
  }

 private:
  TargetLines(std::unique_ptr<ModelTexts> texts, CompletionOptions options)
      : texts_(std::move(texts)), options_(options) {}

  std::unique_ptr<ModelTexts> texts_;
  CompletionOptions options_;
};

/// The run's transforms without those of targets, which the rows lack.
std::vector<Ref<Transform>> input_transforms(const TrainedModel& trained) {
  std::vector<Ref<Transform>> out = trained.recipe.data.transform;
  std::erase_if(out, [](const Ref<Transform>& ref) { return ref.type == "one_hot"; });
  return out;
}

}  // namespace

void predict(const TrainedModel& trained, const std::shared_ptr<const Dataset>& dataset,
             const PredictOptions& options, const std::function<void(const std::string&)>& line) {
  const bool texts = trained.recipe.task.type == kCausalLm;
  const std::string& type = trained.recipe.task.type;
  const bool evaluated = texts || type == kRegression || type == kQuestionAnswering;
  Loader loader(dataset,
                build_transforms(input_transforms(trained), dataset->shape(), /*train=*/false),
                loader_options(trained, texts, options.ranks));
  check_same_samples(trained.data, loader.shape());
  validate_input(*trained.model, loader.shape());
  const auto precision =
      make_precision(trained.recipe.accelerator.mixed_precision, options.device, ScalerOptions{});
  const auto task = build(trained.recipe.task, TaskContext{trained.data});
  const std::optional<TargetLines> targets = TargetLines::of(trained, *task);
  std::optional<AnswerLines> answers = AnswerLines::of(*task, *dataset);
  const c10::NoGradGuard no_grad;
  while (loader.has_next()) {
    const GlobalBatch global_batch = loader.next();
    const DeviceBatches batches(global_batch, options.device);
    std::string lines;  // of this rank
    for (size_t k = 0; k < batches.list().size(); ++k) {
      const Batch& batch = batches.list()[k];
      const AutocastScope casts = precision->autocast();
      const int64_t counted = global_batch.micro_batches[k].valid();
      if (targets) {
        lines += targets->lines(*dataset, batch, counted);
        continue;
      }
      // The task standardizes the targets of a regression, so the model's output is not in their
      // units.
      const auto compute = [&](size_t /*stage*/) {
        if (!evaluated) return trained.model->forward_batch(batch);
        if (texts) return task->evaluate(*trained.model, batch).loss;
        return task->evaluate(*trained.model, with_blank_targets(batch, trained.data)).output;
      };
      const at::Tensor result = options.staged ? options.staged(batch.inputs, compute) : compute(0);
      if (answers) {
        answers->add(batch, result, counted);
        continue;
      }
      for (int64_t i = 0; i < counted; ++i) {
        Json out = row_json(*dataset, batch.ids[static_cast<size_t>(i)]);
        if (texts) {
          add_loss(result, task->weight(batch), out);
        } else {
          add_output(trained, result[i].to(at::kFloat), batch.targets[i], options, out);
        }
        lines += json_text_line(out);
      }
    }
    answers ? answers->gather(options.ranks) : pass_on(options.ranks.gather(lines), line);
  }
  if (answers) answers->write(options.probabilities, line);
}

}  // namespace accel
