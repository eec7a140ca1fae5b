#include "runner/draft/text_model.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "runner/draft/model_folder.h"
#include "text/chat/chat_template.h"
#include "text/pretrained/tokenizer_folder.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// What `new` needs to know of a model type.
struct ModelTypeFacts {
  const char* name;
  bool is_decoder = false;
  bool has_labels = true;  ///< a head for labels of tokens, as in transformers
  /// Key of the number of positions, and transformers' default; 0: the key is required.
  const char* positions_key = "max_position_embeddings";
  int64_t positions = 0;
  bool is_padded = false;  ///< positions start after the padding token's
  bool is_encoder_decoder = false;
};

constexpr ModelTypeFacts kModelTypes[] = {
    {.name = "bert", .positions = 512},
    {.name = "roberta", .positions = 512, .is_padded = true},
    {.name = "xlm-roberta", .positions = 512, .is_padded = true},
    {.name = "camembert", .positions = 512, .is_padded = true},
    {.name = "distilbert", .positions = 512},
    {.name = "modernbert", .positions = 8192},
    {.name = "electra", .positions = 512},
    {.name = "deberta-v2", .positions = 512},
    {.name = "gpt2", .is_decoder = true, .positions_key = "n_positions"},
    {.name = "gpt_neox", .is_decoder = true, .positions = 2048},
    {.name = "opt", .is_decoder = true, .has_labels = false, .positions = 2048},
    {.name = "llama", .is_decoder = true},
    {.name = "mistral", .is_decoder = true},
    {.name = "mixtral", .is_decoder = true},
    {.name = "qwen2", .is_decoder = true},
    {.name = "qwen2_moe", .is_decoder = true},
    {.name = "qwen3", .is_decoder = true},
    {.name = "qwen3_moe", .is_decoder = true},
    {.name = "phi3", .is_decoder = true},
    {.name = "smollm3", .is_decoder = true},
    {.name = "gemma", .is_decoder = true},
    {.name = "gemma2", .is_decoder = true},
    {.name = "gemma3_text", .is_decoder = true, .has_labels = false},
    // Relative positions: texts of any length.
    {.name = "t5", .has_labels = false, .positions_key = "", .is_encoder_decoder = true},
    {.name = "mt5", .has_labels = false, .positions_key = "", .is_encoder_decoder = true}};

/// Null for other types, which the model `auto` judges.
const ModelTypeFacts* facts_of(const std::string& type) {
  const auto found = std::find_if(std::begin(kModelTypes), std::end(kModelTypes),
                                  [&](const ModelTypeFacts& each) { return type == each.name; });
  return found == std::end(kModelTypes) ? nullptr : found;
}

std::string names_of_types(const std::function<bool(const ModelTypeFacts&)>& fits) {
  std::vector<std::string> names;
  for (const ModelTypeFacts& each : kModelTypes) {
    if (fits(each)) names.emplace_back(each.name);
  }
  return joined(names);
}

[[noreturn]] void throw_wish(const std::string& message, const std::string& hint) {
  throw Error(ExitCode::kRecipe, message, hint);
}

/// Throws Error (kRecipe) for a type without the head that `kind` needs.
void check_head(const fs::path& folder, const ModelTypeFacts& facts, TextModelKind kind) {
  if (facts.is_encoder_decoder && kind != TextModelKind::kTargets) {
    throw_wish(
        text("'{}' is a {} model, which maps a source text to a target text", folder.string(),
             facts.name),
        "give it rows with two texts, such as 'prompt' and 'completion', or name a folder of "
        "another model");
  }
  if (kind == TextModelKind::kNextTokens && !facts.is_decoder) {
    throw_wish(
        text("'{}' is a {} model, which does not predict next tokens", folder.string(), facts.name),
        text("name a folder of one of {}",
             names_of_types([](const ModelTypeFacts& each) { return each.is_decoder; })));
  }
  if (kind == TextModelKind::kLabels && !facts.has_labels) {
    throw_wish(text("'{}' is a {} model, of which transformers has no token classification",
                    folder.string(), facts.name),
               text("name a folder of one of {}",
                    names_of_types([](const ModelTypeFacts& each) { return each.has_labels; })));
  }
}

/// Positions of a text in the folder's model; 0: unknown.
int64_t positions_in(const ModelTypeFacts& facts, const nlohmann::json& config) {
  const auto number = [&](const char* key, int64_t usual) {
    const auto found = config.find(key);
    return found != config.end() && found->is_number_integer() ? found->get<int64_t>() : usual;
  };
  const int64_t rows = number(facts.positions_key, facts.positions);
  return facts.is_padded ? rows - number("pad_token_id", 1) - 1 : rows;
}

/// Sets the model of a draft to the folder's, with the head for `kind`.
void use_weights(RecipeDraft& draft, const fs::path& folder, TextModelKind kind) {
  const nlohmann::json config = config_of_folder(folder);
  const ModelTypeFacts* const facts = facts_of(model_type_in(config, folder));
  draft.weights = folder;
  draft.model = {"type: auto", "weights: \"${vars.weights}\""};
  if (facts) {
    check_head(folder, *facts, kind);
    draft.positions = std::max<int64_t>(0, positions_in(*facts, config));
    if (facts->is_decoder && kind != TextModelKind::kNextTokens) {
      const char* const head = kind == TextModelKind::kClasses ? "classes" : "labels";
      draft.model.push_back(text("head: {}  # in place of that for the next token", head));
      draft.findings.push_back(
          text("a {} model predicts next tokens: its head is replaced by a new one for {}",
               facts->name, head));
    }
  }
  draft.model.emplace_back("# lora: {rank: 8, alpha: 16}  # trains adapters only: less memory");
}

void check_tokenizer(const fs::path& path, const TextNeeds& needs) {
  const bool is_file = fs::is_regular_file(path);
  if (!is_file && !fs::is_regular_file(path / "tokenizer.json") && !has_class_vocabulary(path)) {
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
  const bool encoder = needs.kind != TextModelKind::kNextTokens;
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

bool is_encoder_decoder(const std::string& folder) {
  if (folder.empty()) return false;
  const ModelTypeFacts* const facts = facts_of(model_type_in(config_of_folder(folder), folder));
  return facts && facts->is_encoder_decoder;
}

std::string max_length_line(const RecipeDraft& draft, int64_t wanted, const std::string& comment) {
  const bool is_cut = draft.positions > 0 && draft.positions < wanted;
  const std::string& why = is_cut ? "the positions of the model" : comment;
  return text("max_length: {}{}", is_cut ? draft.positions : wanted,
              why.empty() ? "" : "  # " + why);
}

void choose_text_model(RecipeDraft& draft, const DraftRequest& request, const TextNeeds& needs) {
  const bool encoder = needs.kind != TextModelKind::kNextTokens;
  const bool pretrained = !request.model.empty();
  if (pretrained) use_weights(draft, request.model, needs.kind);
  if (!request.tokenizer.empty() || pretrained) {
    draft.tokenizer = request.tokenizer.empty() ? request.model : request.tokenizer;
    check_tokenizer(draft.tokenizer, needs);
  } else {
    plan_tokenizer(draft, request, needs);
  }
  if (pretrained) {
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
