// generate: what a language model makes of a prompt.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/module_state.h"
#include "runner/checkpoint/reader.h"
#include "runner/cli/checkpoint_path.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/moved_inputs.h"
#include "runner/cli/use_verbs.h"
#include "runner/formats/hf_config.h"
#include "runner/job/job.h"
#include "runner/job/model_texts.h"
#include "runner/loop/trained_model.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// A model and what turns texts into its tokens.
struct Writer {
  std::shared_ptr<const Registry> registry = {};  ///< of a checkpoint's plugins
  std::unique_ptr<Model> model;
  std::unique_ptr<TextGenerator> texts;
};

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

LanguageModel& language_model(Model& model, const std::string& source) {
  if (auto* language = dynamic_cast<LanguageModel*>(&model)) return *language;
  throw Error(ExitCode::kRecipe, "the model of '" + source + "' writes no texts",
              "'generate' is for language models, such as gpt and llama");
}

/// The ids under `eos_token_id` of a JSON file: one, or a list; none where the file has none.
void add_ends(const fs::path& file, std::set<int64_t>& ends) {
  if (!is_there(file)) return;
  std::ifstream in(file);
  const auto config = nlohmann::json::parse(in, nullptr, false);
  const auto found = config.is_object() ? config.find("eos_token_id") : config.end();
  if (!config.is_object() || found == config.end()) return;
  for (const auto& id : found->is_array() ? *found : nlohmann::json::array({*found})) {
    if (id.is_number_integer()) ends.insert(id.get<int64_t>());
  }
}

Writer writer_of_folder(const std::string& folder, const std::string& tokenizer) {
  if (tokenizer.empty() && !is_there(fs::path(folder) / "tokenizer.json")) {
    throw DataError("'" + folder + "' has no tokenizer.json", "name one with --tokenizer");
  }
  Node options{Node::Map{}, {}};
  options.map()->push_back({"type", {}, scalar_node("auto")});
  options.map()->push_back({"weights", {}, scalar_node(folder, true)});
  Diagnostics problems;
  Reading reading{problems, components()};
  const Ref<Model> ref = components().of<Model>().prepare(options, reading);
  problems.check();
  Writer out;
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

Writer writer_of_checkpoint(DiskFiles& files, const std::string& source,
                            const std::string& tokenizer) {
  TrainedModel trained = load_trained(files, checkpoint_at(files, source), components_for);
  Writer out;
  out.model = std::move(trained.model);
  LanguageModel& language = language_model(*out.model, source);
  out.registry = trained.registry;
  if (tokenizer.empty()) {
    require_tokenizer(trained);
    out.texts = texts_of(language, trained.resolved, trained.data);
  } else {
    const int64_t window = trained.data.input.empty() ? 0 : trained.data.input.front();
    out.texts = std::make_unique<ModelTexts>(language, codec_of_tokenizer(tokenizer, true), window);
  }
  if (!out.texts) {
    throw Error(ExitCode::kRecipe,
                "the data that '" + source + "' was trained on does not tell what its tokens mean",
                "name a tokenizer with --tokenizer");
  }
  return out;
}

Writer writer_of(const std::string& source, const std::string& tokenizer) {
  DiskFiles files;
  const bool folder =
      !is_run(source) && is_there(fs::path(source) / "config.json") && !has_manifest(files, source);
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
      throw DataError("cannot read the prompts of '" + arguments.prompt_file + "'",
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

}  // namespace

ExitCode generate_verb(const GenerateArguments& arguments) {
  const std::vector<std::string> prompts = prompts_of(arguments);
  const Writer writer = writer_of(arguments.source, arguments.tokenizer);
  for (size_t i = 0; i < prompts.size(); ++i) {
    print_text(prompts[i], writer.texts->generate(prompts[i], arguments.sampling, i),
               arguments.json);
  }
  return ExitCode::kDone;
}

}  // namespace accel
