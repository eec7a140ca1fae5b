// evaluate, predict and generate: a trained model on new data.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "checkpoint/reader.h"
#include "core/api/fitted_values.h"
#include "core/api/text_generator.h"
#include "core/base/activity.h"
#include "core/base/files.h"
#include "core/base/terminal.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "infer/model_texts.h"
#include "infer/predict.h"
#include "infer/trained_model.h"
#include "models/hf/hf_config.h"
#include "models/layers/module_state.h"
#include "runner/cli/checkpoints.h"
#include "runner/cli/cli.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/mesh_model.h"
#include "runner/cli/predict_input.h"
#include "runner/cli/weight_type_flags.h"
#include "runner/placement/weight_placement.h"
#include "train/job/build_completions.h"
#include "train/job/job.h"
#include "train/loop/evaluate.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct EvaluateArguments {
  std::string source;             ///< a run folder or a checkpoint
  std::vector<std::string> data;  ///< options of the eval dataset, "path=test.csv"
  bool json = false;
  MeshArguments mesh;
  PlacementFlags placement;
  WeightTypeFlags types;
};

struct PredictArguments {
  std::string source;             ///< a run folder or a checkpoint
  std::string input;              ///< the path of the dataset; "-": standard input
  std::string output = "-";       ///< a file that must not exist yet; "-": standard output
  std::vector<std::string> data;  ///< other options of the dataset
  bool probabilities = false;
  MeshArguments mesh;
  PlacementFlags placement;
  WeightTypeFlags types;
};

/// Standard input as an unnamed file, for datasets that memory-map theirs.
class StandardInput {
 public:
  StandardInput() : descriptor_(::memfd_create("standard input", MFD_CLOEXEC)) {
    if (descriptor_ < 0) throw IoError("cannot buffer standard input");
    const std::string bytes{std::istreambuf_iterator<char>(std::cin), {}};
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t written = ::write(descriptor_, bytes.data() + at, bytes.size() - at);
      if (written <= 0) throw IoError("cannot buffer standard input");
      at += static_cast<size_t>(written);
    }
  }
  ~StandardInput() { ::close(descriptor_); }
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  /// The message with "standard input" in place of the path.
  std::string named_in(std::string message) const {
    for (const std::string& name : {"'" + path() + "'", path()}) {
      const size_t at = message.find(name);
      if (at != message.npos) message.replace(at, name.size(), "standard input");
    }
    return message;
  }

 private:
  int descriptor_;
};

using LineSink = std::function<void(const std::string& line)>;

/// Writes the lines that `produce` passes on to a new file, complete or not at all; "-" is standard
/// output.
void write_lines(const std::string& path, const std::function<void(const LineSink&)>& produce) {
  if (path == "-") {
    produce([](const std::string& line) { std::cout << line << '\n'; });
    std::cout.flush();
    if (!std::cout) throw IoError("cannot write to standard output");
    return;
  }
  std::error_code error;
  if (fs::exists(fs::symlink_status(path, error))) {
    throw Error(ExitCode::kRecipe, text("'{}' already exists", path),
                "name a file that does not exist: nothing is overwritten");
  }
  write_file_atomically(path, [&](const ByteSink& write) {
    produce([&](const std::string& line) { write(as_bytes(line + '\n')); });
  });
}

/// Throws when categories of a table's features would be inferred from the input: those of the
/// training data count, which checkpoints have for columns without a list.
void check_categories(const Node& dataset, const TrainedModel& trained) {
  const Node::Entry* one_hot = dataset.find("one_hot");
  if (!one_hot || !one_hot->node.map()) return;
  const auto saved = nlohmann::json::parse(trained.fitted_values, nullptr, false);
  const bool has_saved = saved.is_object() && saved.contains("categories");
  for (const Node::Entry& column : *one_hot->node.map()) {
    const Node::List* values = column.node.list();
    if (!column.node.null() && (!values || !values->empty())) continue;
    if (has_saved && saved["categories"].contains(column.key)) continue;
    throw Error(ExitCode::kRecipe,
                text("'one_hot' has no values for '{}', and those of the input may differ from the "
                     "training data",
                     column.key),
                text("list them: --data 'one_hot.{}=[...]'", column.key));
  }
}

std::unique_ptr<Dataset> open_input(const TrainedModel& trained,
                                    const std::vector<std::string>& words) {
  const Node node = dataset_with(trained.resolved, words, trained.data, *trained.registry);
  require_input(trained, node);
  check_categories(node, trained);
  Diagnostics problems;
  Reading reading{problems, *trained.registry};
  const Ref<Dataset> ref = trained.registry->of<Dataset>().prepare(node, reading);
  problems.check();
  const auto seed = static_cast<uint64_t>(trained.recipe.seed);
  auto input = build(ref, {.seed = seed, .train = false, .targets = false});
  auto* fitted = dynamic_cast<FittedValues*>(input.get());
  if (fitted && !trained.fitted_values.empty()) fitted->use_fitted(trained.fitted_values);
  return input;
}

/// Overrides the eval data of the recipe.
void change_data(TrainedModel& trained, const std::vector<std::string>& words) {
  const bool has_path = std::any_of(words.begin(), words.end(), [](const std::string& word) {
    const size_t end = word.find('=');
    return end != word.npos && names_data_file(std::string_view(word).substr(0, end));
  });
  if (trained.recipe.data.split.eval && !has_path) {
    throw Error(
        ExitCode::kRecipe,
        "the eval data is held out of the training data, whose options are those of the run",
        "name a file with --data path=..., inputs=... or images=..., or leave --data out");
  }
  const Node dataset = dataset_with(trained.resolved, words, trained.data, *trained.registry);
  trained.resolved = with_eval_data(std::move(trained.resolved), dataset);
  require_eval_data(trained);
  check_categories(dataset, trained);
  Diagnostics problems;
  Reading reading{problems, *trained.registry};
  trained.recipe = read_recipe(trained.resolved, trained.recipe.name, reading);
}

/// `trained`: without its model.
void print_results(const EvaluateArguments& arguments, const TrainedModel& trained, int64_t samples,
                   const std::map<std::string, double>& results) {
  if (arguments.json) {
    nlohmann::ordered_json line = {
        {"checkpoint", trained.folder}, {"step", trained.step}, {"samples", samples}};
    for (const auto& [name, value] : results) line[name] = value;
    std::cout << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    return;
  }
  std::cout << trained.folder << ": " << samples << " samples\n";
  for (const auto& [name, value] : results) {
    std::cout << "  " << name << "  " << show_number(value) << '\n';
  }
}

/// The checkpoint's model with weights of these types.
TrainedModel load_converted(const std::string& source, const WeightTypes& types) {
  DiskFiles files;
  TrainedModel trained = load_trained(files, checkpoint_at(files, source), components_for);
  print_weight_types(*trained.model, types, convert_weights(trained, types));
  return trained;
}

[[noreturn]] void refuse_without_data(const std::string& source) {
  throw Error(ExitCode::kRecipe, text("the recipe of '{}' has no eval data", source),
              "name some with --data, such as --data path=test.csv");
}

ExitCode evaluate_on_mesh(const EvaluateArguments& arguments, RankSession& session) {
  refuse_placement_on_mesh(arguments.placement);
  refuse_weight_types_on_mesh(arguments.types);
  MeshModel loaded = load_mesh_model(arguments.source, arguments.mesh, session);
  if (!arguments.data.empty()) {
    change_data(loaded.trained, arguments.data);
    replace_eval_data(*loaded.job, loaded.trained.recipe, loaded.trained.resolved);
  }
  if (!loaded.job->eval_loader) refuse_without_data(arguments.source);
  const auto results = evaluate(*loaded.job);
  if (loaded.job->is_main) {
    print_results(arguments, loaded.trained, loaded.job->eval_samples, *results);
  }
  return ExitCode::kDone;
}

ExitCode evaluate_verb(const EvaluateArguments& arguments) {
  PlacementRequest placement = placement_request(arguments.placement);
  const WeightTypes types = weight_types(arguments.types, arguments.placement);
  const at::Device device = choose_inference_device(placement);
  TrainedModel trained = load_converted(arguments.source, types);
  if (!arguments.data.empty()) change_data(trained, arguments.data);
  if (!has_eval_data(trained.recipe)) refuse_without_data(arguments.source);
  require_eval_data(trained);
  const auto job = evaluation_job(
      {std::move(trained.recipe), std::move(trained.resolved), std::move(trained.data),
       std::move(trained.model), trained.world, std::move(trained.fitted_values),
       std::move(trained.data_fingerprint), device},
      *trained.registry);
  load_task_models(*job, trained.task_weights);
  for (const TaskModel& item : job->task_models) move_to(*item.model, device);
  const auto placed = PlacedWeights::place(*job->model, placement, device);
  print_results(arguments, trained, job->eval_samples, *evaluate(*job));
  if (placed) placed->report();
  return ExitCode::kDone;
}

/// How a checkpoint is applied: PredictOptions, and whether this rank prints.
struct Application {
  PredictOptions options;
  bool prints = true;
};

void predict_input(const TrainedModel& trained, const std::string& path,
                   const PredictArguments& arguments, const Application& application) {
  const std::vector<std::string> words = input_words(trained, path, arguments.data);
  std::shared_ptr<const Dataset> dataset = open_input(trained, words);
  if (!application.prints) {
    predict(trained, dataset, application.options, [](const std::string&) {});
    return;
  }
  write_lines(arguments.output, [&](const LineSink& add) {
    // Predictions on the terminal show the progress themselves.
    const bool on_terminal = arguments.output == "-" && is_terminal(STDOUT_FILENO);
    std::optional<Activity> shown;
    if (!on_terminal) shown.emplace("predicting", "rows");
    const int64_t rows = dataset->size();
    int64_t done = 0;
    predict(trained, dataset, application.options, [&](const std::string& line) {
      add(line);
      if (shown) shown->progress(++done, rows);
    });
  });
}

ExitCode predict_on_mesh(const PredictArguments& arguments, RankSession& session) {
  refuse_placement_on_mesh(arguments.placement);
  refuse_weight_types_on_mesh(arguments.types);
  if (arguments.input == "-") {
    throw Error(ExitCode::kRecipe, "'--mesh' does not support standard input as '--input'",
                "give it a file, which every rank reads");
  }
  MeshModel loaded = load_mesh_model(arguments.source, arguments.mesh, session);
  Job& job = *loaded.job;
  check_predicts(loaded.trained);
  check_predicts_on_ranks(job);
  loaded.trained.model = std::move(job.model);
  with_evaluated_weights(job, [&] {
    predict_input(
        loaded.trained, arguments.input, arguments,
        {{arguments.probabilities, job.device, staged_forward(job), data_ranks(job)}, job.is_main});
  });
  job.model = std::move(loaded.trained.model);
  return ExitCode::kDone;
}

ExitCode predict_verb(const PredictArguments& arguments) {
  PlacementRequest placement = placement_request(arguments.placement);
  const WeightTypes types = weight_types(arguments.types, arguments.placement);
  const at::Device device = choose_inference_device(placement);
  const TrainedModel trained = load_converted(arguments.source, types);
  check_predicts(trained);
  const Application application = {{.probabilities = arguments.probabilities, .device = device}};
  const auto placed = PlacedWeights::place(*trained.model, placement, device);
  if (arguments.input != "-") {
    predict_input(trained, arguments.input, arguments, application);
    if (placed) placed->report();
    return ExitCode::kDone;
  }
  const StandardInput standard;
  try {
    predict_input(trained, standard.path(), arguments, application);
  } catch (const RecipeError& error) {
    std::vector<Diagnostic> diagnostics = error.diagnostics();
    for (Diagnostic& item : diagnostics) item.message = standard.named_in(std::move(item.message));
    throw RecipeError(std::move(diagnostics));
  } catch (const Error& error) {
    throw Error(error.code(), standard.named_in(error.what()), error.hint());
  }
  if (placed) placed->report();
  return ExitCode::kDone;
}

}  // namespace

void add_apply_verbs(VerbTable& verbs) {
  constexpr auto kSourceHelp = "a run folder, or one of its checkpoints";
  const auto eval = std::make_shared<EvaluateArguments>();
  CLI::App& evaluate_it = verbs.add("evaluate", "evaluate a trained model",
                                    on_mesh(verbs, eval, &evaluate_verb, &evaluate_on_mesh));
  evaluate_it.add_option("source", eval->source, kSourceHelp)->required();
  add_mesh(evaluate_it, eval->mesh);
  add_placement_flags(evaluate_it, eval->placement);
  add_weight_type_flags(evaluate_it, eval->types);
  add_repeated(evaluate_it, "--data", eval->data,
               "key=value of the eval dataset, such as path=test.csv; may be repeated");
  evaluate_it.add_flag("--json", eval->json, "print one JSON object");
  const auto to = std::make_shared<PredictArguments>();
  CLI::App& predict_it = verbs.add("predict", "write the model's output for each row",
                                   on_mesh(verbs, to, &predict_verb, &predict_on_mesh));
  predict_it.add_option("source", to->source, kSourceHelp)->required();
  add_mesh(predict_it, to->mesh);
  add_placement_flags(predict_it, to->placement);
  add_weight_type_flags(predict_it, to->types);
  predict_it
      .add_option("--input", to->input,
                  "a file or folder like the training data, without targets; '-': standard input")
      ->required();
  predict_it.add_option("--output", to->output,
                        "a file that must not exist yet; default: '-', standard output");
  add_repeated(predict_it, "--data", to->data,
               "key=value of the dataset, where it differs from the recipe");
  predict_it.add_flag("--probabilities", to->probabilities, "write the probability of every class");
}

}  // namespace accel
