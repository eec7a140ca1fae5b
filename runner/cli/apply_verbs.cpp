// evaluate, predict and generate: a trained model on new data.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
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
#include "runner/cli/predict_input.h"
#include "train/job/job.h"
#include "train/loop/evaluate.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct EvaluateArguments {
  std::string source;             ///< a run folder or a checkpoint
  std::vector<std::string> data;  ///< options of the eval dataset, "path=test.csv"
  bool json = false;
};

struct PredictArguments {
  std::string source;             ///< a run folder or a checkpoint
  std::string input;              ///< the path of the dataset; "-": standard input
  std::string output = "-";       ///< a file that must not exist yet; "-": standard output
  std::vector<std::string> data;  ///< other options of the dataset
  bool probabilities = false;
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
    return word.starts_with("path=");
  });
  if (trained.recipe.data.split.eval && !has_path) {
    throw Error(
        ExitCode::kRecipe,
        "the eval data is held out of the training data, whose options are those of the run",
        "name a file with --data path=..., or leave --data out");
  }
  const Node dataset = dataset_with(trained.resolved, words, trained.data, *trained.registry);
  trained.resolved = with_eval_data(std::move(trained.resolved), dataset);
  require_eval_data(trained);
  check_categories(dataset, trained);
  Diagnostics problems;
  Reading reading{problems, *trained.registry};
  trained.recipe = read_recipe(trained.resolved, trained.recipe.name, reading);
}

ExitCode evaluate_verb(const EvaluateArguments& arguments) {
  DiskFiles files;
  TrainedModel trained =
      load_trained(files, checkpoint_at(files, arguments.source), components_for);
  if (!arguments.data.empty()) change_data(trained, arguments.data);
  if (!has_eval_data(trained.recipe)) {
    throw Error(ExitCode::kRecipe, text("the recipe of '{}' has no eval data", arguments.source),
                "name some with --data, such as --data path=test.csv");
  }
  require_eval_data(trained);
  const auto job =
      evaluation_job({std::move(trained.recipe), std::move(trained.resolved),
                      std::move(trained.data), std::move(trained.model), trained.world,
                      std::move(trained.fitted_values), std::move(trained.data_fingerprint)},
                     *trained.registry);
  load_task_models(*job, trained.task_weights);
  const auto results = evaluate(*job);
  if (arguments.json) {
    nlohmann::ordered_json line = {
        {"checkpoint", trained.folder}, {"step", trained.step}, {"samples", job->eval_samples}};
    for (const auto& [name, value] : *results) line[name] = value;
    std::cout << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    return ExitCode::kDone;
  }
  std::cout << trained.folder << ": " << job->eval_samples << " samples\n";
  for (const auto& [name, value] : *results) {
    std::cout << "  " << name << "  " << show_number(value) << '\n';
  }
  return ExitCode::kDone;
}

void predict_input(const TrainedModel& trained, const std::string& path,
                   const PredictArguments& arguments) {
  const std::vector<std::string> words = input_words(trained, path, arguments.data);
  std::shared_ptr<const Dataset> dataset = open_input(trained, words);
  write_lines(arguments.output, [&](const LineSink& add) {
    // Predictions on the terminal show the progress themselves.
    const bool on_terminal = arguments.output == "-" && is_terminal(STDOUT_FILENO);
    std::optional<Activity> shown;
    if (!on_terminal) shown.emplace("predicting", "rows");
    const int64_t rows = dataset->size();
    int64_t done = 0;
    predict(trained, dataset, {arguments.probabilities}, [&](const std::string& line) {
      add(line);
      if (shown) shown->progress(++done, rows);
    });
  });
}

ExitCode predict_verb(const PredictArguments& arguments) {
  DiskFiles files;
  const TrainedModel trained =
      load_trained(files, checkpoint_at(files, arguments.source), components_for);
  check_predicts(trained);
  if (arguments.input != "-") {
    predict_input(trained, arguments.input, arguments);
    return ExitCode::kDone;
  }
  const StandardInput standard;
  try {
    predict_input(trained, standard.path(), arguments);
  } catch (const RecipeError&) {
    throw;
  } catch (const Error& error) {
    std::string message = error.what();
    for (const std::string& name : {"'" + standard.path() + "'", standard.path()}) {
      const size_t at = message.find(name);
      if (at != message.npos) message.replace(at, name.size(), "standard input");
    }
    throw Error(error.code(), message, error.hint());
  }
  return ExitCode::kDone;
}

struct GenerateArguments {
  std::string source;                ///< a run folder, a checkpoint or a Hugging Face folder
  std::string tokenizer;             ///< instead of the tokenizer of the source
  std::vector<std::string> prompts;  ///< followed by the lines of the file
  std::string prompt_file;           ///< "-": standard input; "": none
  SamplingOptions sampling;
  bool json = false;
};

/// A model with its generator.
struct TextWriter {
  std::shared_ptr<const Registry> registry = {};  ///< of a checkpoint's plugins
  std::unique_ptr<Model> model;
  std::unique_ptr<TextGenerator> texts;
};

bool path_exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

LanguageModel& language_model(Model& model, const std::string& source) {
  if (auto* language = dynamic_cast<LanguageModel*>(&model)) return *language;
  throw Error(ExitCode::kRecipe, text("the model of '{}' is not a language model", source),
              "'generate' needs one, such as gpt or llama");
}

/// The ids under `eos_token_id` of a JSON file: one, or a list; none where the file has none.
void add_ends(const fs::path& file, std::set<int64_t>& ends) {
  if (!path_exists(file)) return;
  std::ifstream in(file);
  const auto config = nlohmann::json::parse(in, nullptr, false);
  const auto found = config.is_object() ? config.find("eos_token_id") : config.end();
  if (!config.is_object() || found == config.end()) return;
  for (const auto& id : found->is_array() ? *found : nlohmann::json::array({*found})) {
    if (id.is_number_integer()) ends.insert(id.get<int64_t>());
  }
}

TextWriter writer_of_folder(const std::string& folder, const std::string& tokenizer) {
  if (tokenizer.empty() && !path_exists(fs::path(folder) / "tokenizer.json")) {
    throw DataError(text("'{}' has no tokenizer.json", folder), "name one with --tokenizer");
  }
  Node options{Node::Map{}, {}};
  options.map()->push_back({"type", {}, scalar_node("auto")});
  options.map()->push_back({"weights", {}, scalar_node(folder, true)});
  Diagnostics problems;
  Reading reading{problems, components()};
  const Ref<Model> ref = components().of<Model>().prepare(options, reading);
  problems.check();
  TextWriter out;
  out.model = ref.make({});
  set_training(*out.model, false);
  std::set<int64_t> ends;
  add_ends(fs::path(folder) / "config.json", ends);
  add_ends(fs::path(folder) / "generation_config.json", ends);
  auto codec = codec_of_tokenizer(tokenizer.empty() ? folder : tokenizer, true);
  out.texts = std::make_unique<ModelTexts>(language_model(*out.model, folder), std::move(codec), 0,
                                           std::move(ends));
  return out;
}

TextWriter writer_of_checkpoint(DiskFiles& files, const std::string& source,
                                const std::string& tokenizer) {
  TrainedModel trained = load_trained(files, checkpoint_at(files, source), components_for);
  TextWriter out;
  out.model = std::move(trained.model);
  LanguageModel& language = language_model(*out.model, source);
  out.registry = trained.registry;
  if (tokenizer.empty()) {
    require_tokenizer(trained);
    out.texts = texts_of(language, trained.resolved, trained.data, {});
  } else {
    const int64_t context = trained.data.input.empty() ? 0 : trained.data.input.front();
    out.texts =
        std::make_unique<ModelTexts>(language, codec_of_tokenizer(tokenizer, true), context);
  }
  if (!out.texts) {
    throw Error(ExitCode::kRecipe, text("the training data of '{}' has no tokenizer", source),
                "name a tokenizer with --tokenizer");
  }
  return out;
}

TextWriter writer_of(const std::string& source, const std::string& tokenizer) {
  DiskFiles files;
  const bool folder = !is_run(source) && path_exists(fs::path(source) / "config.json") &&
                      !has_manifest(files, source);
  return folder ? writer_of_folder(source, tokenizer)
                : writer_of_checkpoint(files, source, tokenizer);
}

void add_lines(std::istream& in, std::vector<std::string>& prompts) {
  for (std::string line; std::getline(in, line);) prompts.push_back(line);
}

std::vector<std::string> prompts_of(const GenerateArguments& arguments) {
  std::vector<std::string> prompts = arguments.prompts;
  if (arguments.prompt_file == "-") {
    add_lines(std::cin, prompts);
  } else if (!arguments.prompt_file.empty()) {
    std::ifstream in(arguments.prompt_file);
    if (!in || fs::is_directory(arguments.prompt_file)) {
      throw DataError(text("cannot read the prompts of '{}'", arguments.prompt_file),
                      "check its name");
    }
    add_lines(in, prompts);
  }
  if (prompts.empty()) {
    throw Error(ExitCode::kRecipe, "there is no prompt",
                "give one with --prompt, or --prompt-file with a file");
  }
  return prompts;
}

void print_text(const std::string& prompt, const GeneratedText& made, bool json) {
  if (!json) {
    std::cout << prompt << made.text << '\n' << std::flush;
    return;
  }
  const nlohmann::ordered_json line = {{"prompt", prompt},
                                       {"text", made.text},
                                       {"tokens", made.tokens},
                                       {"end", made.ended ? "token" : "length"}};
  std::cout << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n'
            << std::flush;
}

ExitCode generate_verb(const GenerateArguments& arguments) {
  const std::vector<std::string> prompts = prompts_of(arguments);
  const TextWriter writer = writer_of(arguments.source, arguments.tokenizer);
  for (size_t i = 0; i < prompts.size(); ++i) {
    print_text(prompts[i], writer.texts->generate(prompts[i], arguments.sampling, i),
               arguments.json);
  }
  return ExitCode::kDone;
}

void add_sampling(CLI::App& verb, SamplingOptions& to) {
  verb.add_option("--max-new-tokens", to.max_new_tokens,
                  "largest number of tokens to generate; default: 100")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  verb.add_option("--temperature", to.temperature,
                  "temperature of sampling; 0: greedy decoding; default: 1")
      ->check(CLI::Range(0.0, 1000.0));
  verb.add_option("--top-k", to.top_k, "sample from the k most likely tokens; default: all")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
  verb.add_option("--top-p", to.top_p,
                  "sample from the most likely tokens whose probabilities add up to p; default: 1")
      ->check(CLI::Range(1e-9, 1.0));
  verb.add_option("--seed", to.seed, "seed of sampling; default: 42");
}

}  // namespace

void add_apply_verbs(VerbTable& verbs) {
  constexpr auto kSourceHelp = "a run folder, or one of its checkpoints";
  const auto eval = std::make_shared<EvaluateArguments>();
  CLI::App& evaluate_it = verbs.add("evaluate", "evaluate a trained model",
                                    verbs.with_torch([eval] { return evaluate_verb(*eval); }));
  evaluate_it.add_option("source", eval->source, kSourceHelp)->required();
  add_repeated(evaluate_it, "--data", eval->data,
               "key=value of the eval dataset, such as path=test.csv; may be repeated");
  evaluate_it.add_flag("--json", eval->json, "print one JSON object");
  const auto to = std::make_shared<PredictArguments>();
  CLI::App& predict_it = verbs.add("predict", "write the model's output for each row",
                                   verbs.with_torch([to] { return predict_verb(*to); }));
  predict_it.add_option("source", to->source, kSourceHelp)->required();
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

void add_generate_verb(VerbTable& verbs) {
  const auto to = std::make_shared<GenerateArguments>();
  CLI::App& verb = verbs.add("generate", "generate text from a prompt",
                             verbs.with_torch([to] { return generate_verb(*to); }));
  verb.add_option("source", to->source,
                  "a run folder, a checkpoint, or a model's Hugging Face folder")
      ->required();
  add_repeated(verb, "--prompt", to->prompts, "the prompt; may be repeated");
  verb.add_option("--prompt-file", to->prompt_file,
                  "a file with one prompt per line; '-': standard input");
  verb.add_option("--tokenizer", to->tokenizer,
                  "a tokenizer.json, or the folder with one, where the source has none");
  add_sampling(verb, to->sampling);
  verb.add_flag("--json", to->json, "print one JSON object per prompt");
}

}  // namespace accel
