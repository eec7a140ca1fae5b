#include "runner/draft/text_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "formats/strict_json.h"
#include "text/chat/chat_template.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEncoders[] = {"bert",       "roberta",    "xlm-roberta", "camembert",
                                     "distilbert", "modernbert", "electra",     "deberta-v2"};
constexpr const char* kDecoders[] = {"gpt2",    "gpt_neox", "opt",    "llama",
                                     "mistral", "qwen2",    "qwen3",  "phi3",
                                     "smollm3", "gemma",    "gemma2", "gemma3_text"};

template <size_t Size>
bool is_among(const std::string& word, const char* const (&words)[Size]) {
  return std::any_of(std::begin(words), std::end(words),
                     [&](const char* each) { return word == each; });
}

[[noreturn]] void throw_wish(const std::string& message, const std::string& hint) {
  throw Error(ExitCode::kRecipe, message, hint);
}

std::string model_type_of(const fs::path& folder) {
  const fs::path config = folder / "config.json";
  if (!fs::is_regular_file(config)) {
    throw_wish(text("'--model {}': there is no '{}'", folder.string(), config.string()),
               "name a folder as Hugging Face's save_pretrained() writes it");
  }
  const SharedBytes file = map_file(config.string());
  try {
    MemoryBudget budget(file.view.size(), config.string());
    const nlohmann::json json =
        parse_strict_json(as_text(file.view), single_quoted(config.string()), 32, budget);
    const auto type = json.find("model_type");
    if (type != json.end() && type->is_string()) return type->get<std::string>();
  } catch (const FormatError& error) {
    throw DataError(error.what());
  }
  throw DataError(text("'{}' has no 'model_type'", config.string()));
}

void check_model(const fs::path& folder, TextModelKind kind) {
  const std::string type = model_type_of(folder);
  if (kind == TextModelKind::kDecoder && is_among(type, kEncoders)) {
    throw_wish(
        text("'{}' is a {} model, which does not predict next tokens", folder.string(), type),
        text("name a folder of one of {}", joined(kDecoders)));
  }
  if (kind == TextModelKind::kEncoder && is_among(type, kDecoders)) {
    throw_wish(text("'{}' is a {} model, which does not classify", folder.string(), type),
               text("name a folder of one of {}", joined(kEncoders)));
  }
}

void check_tokenizer(const fs::path& path, const TextNeeds& needs) {
  const bool is_file = fs::is_regular_file(path);
  if (!is_file && !fs::is_regular_file(path / "tokenizer.json")) {
    throw_wish(text("there is no 'tokenizer.json' in '{}'", path.string()),
               "name another folder with --tokenizer, or leave the option out: the command that "
               "trains a tokenizer is printed");
  }
  if (needs.chat && !find_chat_template(path)) {
    throw_wish(text("the tokenizer '{}' has no chat template", path.string()),
               "save one as 'chat_template.jinja' beside it, or leave out --tokenizer: the command "
               "that trains a tokenizer with ChatML's template is printed");
  }
}

/// The folder of a tokenizer to be trained, beside the recipe, and the command.
void plan_tokenizer(RecipeDraft& draft, const DraftRequest& request, const TextNeeds& needs) {
  fs::path folder = request.recipe;
  folder.replace_extension();
  folder += "-tokenizer";
  const std::string name = folder.string();
  for (int i = 2; fs::exists(folder); ++i) folder = name + "-" + std::to_string(i);
  draft.tokenizer = folder;
  const bool encoder = needs.kind == TextModelKind::kEncoder;
  std::string command = "accel-run tokenizer train " + shell_word(request.data);
  if (fs::is_directory(request.data))
    command = "accel-run tokenizer train " + shell_word(needs.file);
  if (!needs.fields.empty()) command += " --fields " + shell_word(joined(needs.fields, ","));
  if (encoder) command += needs.cased ? " --model wordpiece --cased" : " --model wordpiece";
  if (needs.chat) command += " --chatml";
  draft.first_command = command + " --out " + shell_word(folder);
  draft.findings.push_back(
      text("a tokenizer is trained on the data first: {}", draft.first_command));
  draft.others.push_back("an existing tokenizer: --tokenizer FOLDER");
}

}  // namespace

void choose_text_model(RecipeDraft& draft, const DraftRequest& request, const TextNeeds& needs) {
  const bool encoder = needs.kind == TextModelKind::kEncoder;
  const bool pretrained = !request.model.empty();
  if (pretrained) check_model(request.model, needs.kind);
  if (!request.tokenizer.empty() || pretrained) {
    draft.tokenizer = request.tokenizer.empty() ? request.model : request.tokenizer;
    check_tokenizer(draft.tokenizer, needs);
  } else {
    plan_tokenizer(draft, request, needs);
  }
  if (pretrained) {
    draft.weights = request.model;
    draft.model = {"type: auto", "weights: \"${vars.weights}\"",
                   "# lora: {rank: 8, alpha: 16}  # trains adapters only: less memory"};
    draft.lr = "2e-5";
    draft.until = "3 epochs";
    draft.batch = batch_for(needs.samples, 16);
    return;
  }
  if (encoder) {
    draft.model = {"type: bert", "num_layers: 2", "num_heads: 4", "hidden_size: 128",
                   "dropout: 0.1"};
    draft.lr = "0.0005";
  } else {
    draft.model = {"type: llama", "num_layers: 4", "num_heads: 4", "hidden_size: 128"};
  }
  draft.batch = batch_for(needs.samples, 32);
  draft.findings.push_back(
      "the model is small and begins without knowledge; --model FOLDER fine-tunes a pretrained "
      "one");
}

}  // namespace accel
