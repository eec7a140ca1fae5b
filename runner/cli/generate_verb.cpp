// generate: text from a trained model.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "checkpoint/reader.h"
#include "core/api/text_generator.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "infer/model_texts.h"
#include "infer/trained_model.h"
#include "models/layers/module_state.h"
#include "runner/cli/checkpoints.h"
#include "runner/cli/cli.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/mesh_model.h"
#include "train/loop/evaluate.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct GenerateArguments {
  std::string source;                ///< a run folder, a checkpoint or a Hugging Face folder
  std::string tokenizer;             ///< instead of the tokenizer of the source
  std::vector<std::string> prompts;  ///< followed by the lines of the file
  std::string prompt_file;           ///< "-": standard input; "": none
  SamplingOptions sampling;
  bool json = false;
  MeshArguments mesh;
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

std::unique_ptr<TextGenerator> checkpoint_texts(LanguageModel& language,
                                                const TrainedModel& trained,
                                                const std::string& tokenizer,
                                                const StagedForward& staged) {
  if (!tokenizer.empty()) {
    const int64_t context = trained.data.input.empty() ? 0 : trained.data.input.front();
    return std::make_unique<ModelTexts>(language, codec_of_tokenizer(tokenizer, true), context,
                                        std::set<int64_t>(), staged);
  }
  require_tokenizer(trained);
  auto texts = texts_of(language, trained.resolved, trained.data, staged);
  if (texts) return texts;
  throw Error(ExitCode::kRecipe, text("the training data of '{}' has no tokenizer", trained.folder),
              "name a tokenizer with --tokenizer");
}

TextWriter writer_of_checkpoint(DiskFiles& files, const std::string& source,
                                const std::string& tokenizer) {
  TrainedModel trained = load_trained(files, checkpoint_at(files, source), components_for);
  TextWriter out;
  out.model = std::move(trained.model);
  out.registry = trained.registry;
  out.texts = checkpoint_texts(language_model(*out.model, source), trained, tokenizer, {});
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

ExitCode generate_on_mesh(const GenerateArguments& arguments, RankSession& session) {
  const std::vector<std::string> prompts = prompts_of(arguments);
  const MeshModel loaded = load_mesh_model(arguments.source, arguments.mesh, session);
  Job& job = *loaded.job;
  LanguageModel& language = language_model(*job.model, arguments.source);
  const auto texts =
      checkpoint_texts(language, loaded.trained, arguments.tokenizer, staged_forward(job));
  with_evaluated_weights(job, [&] {
    for (size_t i = 0; i < prompts.size(); ++i) {
      const GeneratedText made = texts->generate(prompts[i], arguments.sampling, i);
      if (job.is_main) print_text(prompts[i], made, arguments.json);
    }
  });
  return ExitCode::kDone;
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

void add_generate_verb(VerbTable& verbs) {
  const auto to = std::make_shared<GenerateArguments>();
  CLI::App& verb = verbs.add("generate", "generate text from a prompt",
                             on_mesh(verbs, to, &generate_verb, &generate_on_mesh));
  verb.add_option("source", to->source,
                  "a run folder, a checkpoint, or a model's Hugging Face folder")
      ->required();
  add_mesh(verb, to->mesh);
  add_repeated(verb, "--prompt", to->prompts, "the prompt; may be repeated");
  verb.add_option("--prompt-file", to->prompt_file,
                  "a file with one prompt per line; '-': standard input");
  verb.add_option("--tokenizer", to->tokenizer,
                  "a tokenizer.json, or the folder with one, where the source has none");
  add_sampling(verb, to->sampling);
  verb.add_flag("--json", to->json, "print one JSON object per prompt");
}

}  // namespace accel
