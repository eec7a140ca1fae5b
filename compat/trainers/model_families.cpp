#include "compat/trainers/model_families.h"

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "core/base/text.h"
#include "core/recipe/node.h"

namespace accel {
namespace {

struct FamilyName {
  std::string_view part;  ///< of a model's name, in lower case
  const char* type;
};

/// The first match wins: special names stand before the families that they contain.
constexpr FamilyName kFamilyNames[] = {
    {"deepseek-r1-distill-qwen", "qwen2"},
    {"deepseek-r1-distill-llama", "llama"},
    {"falcon3", "llama"},
    {"falcon-h1", "falcon_h1"},
    {"falcon-mamba", "falcon_mamba"},
    {"falcon", "falcon"},
    {"gemma-4", "gemma4"},
    {"gemma-3n", "gemma3n"},
    {"gemma-3", "gemma3"},
    {"gemma-2-", "gemma2"},
    {"gemma2", "gemma2"},
    {"gemma", "gemma"},
    {"llava", "llava"},
    {"qwen3-vl", "qwen3_vl"},
    {"qwen2.5-vl", "qwen2_5_vl"},
    {"qwen2-vl", "qwen2_vl"},
    {"qwen3-next", "qwen3_next"},
    {"qwen3.5", "qwen3_5"},
    {"qwen3.6", "qwen3_5"},
    {"qwen3-coder-30b-a3b", "qwen3_moe"},
    {"qwen3-30b-a3b", "qwen3_moe"},
    {"qwen3-235b-a22b", "qwen3_moe"},
    {"qwen3", "qwen3"},
    {"qwen2-57b-a14b", "qwen2_moe"},
    {"qwen1.5-moe", "qwen2_moe"},
    {"qwen2", "qwen2"},
    {"qwen1.5", "qwen2"},
    {"qwen", "qwen"},
    {"mixtral", "mixtral"},
    {"ministral-3", "ministral3"},
    {"magistral", "mistral"},
    {"mistral-small-3.1", "mistral3"},
    {"mistral", "mistral"},
    {"zephyr-7b", "mistral"},
    {"llama-4", "llama4"},
    {"llama4", "llama4"},
    {"llama-3.2-11b-vision", "mllama"},
    {"llama-3.2-90b-vision", "mllama"},
    {"llama", "llama"},
    {"smollm3", "smollm3"},
    {"smollm", "llama"},
    {"yi-6b", "llama"},
    {"vicuna", "llama"},
    {"phi-3.5-moe", "phimoe"},
    {"phi-4", "phi3"},
    {"phi-3", "phi3"},
    {"phi-2", "phi"},
    {"phi-1", "phi"},
    {"deepseek-moe", "deepseek"},
    {"deepseek-v4", "deepseek_v4"},
    {"deepseek-v3", "deepseek_v3"},
    {"deepseek-v2", "deepseek_v2"},
    {"gpt-oss", "gpt_oss"},
    {"gpt-neox", "gpt_neox"},
    {"pythia", "gpt_neox"},
    {"redpajama-incite", "gpt_neox"},
    {"opt-", "opt"},
    {"galactica", "opt"},
    {"gpt-j", "gptj"},
    {"gpt2", "gpt2"},
    {"bloom", "bloom"},
    {"mpt-", "mpt"},
    {"replit", "mpt"},
    {"starcoder2", "starcoder2"},
    {"starchat2", "starcoder2"},
    {"stablelm", "stablelm"},
    {"jamba", "jamba"},
    {"mamba", "mamba"},
    {"btlm", "btlm"},
    {"xgen", "llama"},
    {"cohere", "cohere"},
    {"command-r", "cohere"},
    {"granite", "granite"},
    {"olmo-3", "olmo3"},
    {"olmo-2", "olmo2"},
    {"internlm2", "internlm2"},
    {"internlm", "internlm"},
    {"baichuan", "baichuan"},
    {"chatglm", "chatglm"},
    {"glm-4", "glm4"},
    {"glm", "glm"},
    {"minicpm", "minicpm"},
    {"orion", "orion"},
    {"xverse", "xverse"},
    {"exaone", "exaone"},
    {"lfm2", "lfm2"},
    {"arcee", "arcee"},
    {"trinity", "afmoe"},
    {"apertus", "apertus"},
    {"seed-oss", "seed_oss"},
    {"hunyuan", "hunyuan_v1_dense"},
    {"voxtral", "voxtral"},
    {"pixtral", "pixtral"},
    {"kimi", "kimi"},
    {"distilbert", "distilbert"},
    {"xlm-roberta", "xlm-roberta"},
    {"camembert", "camembert"},
    {"roberta", "roberta"},
    {"modernbert", "modernbert"},
    {"electra", "electra"},
    {"deberta", "deberta-v2"},
    {"bert-base", "bert"},
    {"bert-large", "bert"},
    {"flan-t5", "t5"},
};

constexpr FamilyName kTorchtuneFamilies[] = {
    {"llama2", "llama"},
    {"code_llama2", "llama"},
    {"llama3_2_vision", "mllama"},
    {"llama3", "llama"},
    {"llama3_1", "llama"},
    {"llama3_2", "llama"},
    {"llama3_3", "llama"},
    {"llama4", "llama4"},
    {"falcon3", "llama"},
    {"mistral", "mistral"},
    {"qwen2", "qwen2"},
    {"qwen2_5", "qwen2"},
    {"qwen3", "qwen3"},
    {"gemma", "gemma"},
    {"gemma2", "gemma2"},
    {"phi3", "phi3"},
    {"phi4", "phi3"},
    {"smol", "llama"},
    {"t5", "t5"},
    {"clip", "clip_text_model"},
    {"flux", "flux"},
};

struct PeftTargets {
  std::string_view type;
  std::vector<std::string> layers;
};

bool starts_a_word(const std::string& name, size_t at) {
  return at == 0 || !std::isalpha(static_cast<unsigned char>(name[at - 1]));
}

}  // namespace

std::string value_in_folder(const std::string& folder, const std::string& key) {
  constexpr size_t kMostBytes = 262'144;
  std::ifstream file(std::filesystem::path(folder) / "config.json");
  if (!file) return {};
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() > kMostBytes) return {};
  try {
    const Node config = parse_recipe("config.json", std::move(text));
    const Node::Entry* entry = config.find(key);
    return entry && entry->node.scalar() ? entry->node.scalar()->text : std::string();
  } catch (const RecipeError&) {
    return {};  // `validate` reports a damaged folder
  }
}

ModelFamily family_of(const std::string& model) {
  if (const std::string type = value_in_folder(model, "model_type"); !type.empty()) {
    return {type, false};
  }
  std::string name = ascii_lower(model.substr(model.find_last_of('/') + 1));
  for (char& c : name) {
    if (c == '_') c = '-';
  }
  for (const FamilyName& family : kFamilyNames) {
    for (size_t at = name.find(family.part); at != name.npos; at = name.find(family.part, at + 1)) {
      const bool llama = family.type == std::string_view("llama");  // "codellama", "tinyllama"
      if (llama || starts_a_word(name, at)) return {family.type, true};
    }
  }
  return {};
}

ModelFamily torchtune_family(const std::string& component) {
  constexpr std::string_view kModels = ".models.";
  const size_t at = component.find(kModels);
  if (at == component.npos) return {};
  const size_t begin = at + kModels.size();
  const std::string module = component.substr(begin, component.find('.', begin) - begin);
  for (const FamilyName& family : kTorchtuneFamilies) {
    if (module == family.part) return {family.type, false};
  }
  return {};
}

std::vector<std::string> peft_targets(const std::string& model_type) {
  static const PeftTargets kTargets[] = {
      {"llama", {"q_proj", "v_proj"}},
      {"mistral", {"q_proj", "v_proj"}},
      {"qwen2", {"q_proj", "v_proj"}},
      {"qwen3", {"q_proj", "v_proj"}},
      {"gemma", {"q_proj", "v_proj"}},
      {"gpt2", {"c_attn"}},
      {"bert", {"query", "value"}},
      {"roberta", {"query", "value"}},
      {"xlm-roberta", {"query", "value"}},
      {"electra", {"query", "value"}},
      {"gpt_neox", {"query_key_value"}},
      {"opt", {"q_proj", "v_proj"}},
      {"deberta-v2", {"query_proj", "value_proj"}},
  };
  for (const PeftTargets& row : kTargets) {
    if (row.type == model_type) return row.layers;
  }
  return {};
}

}  // namespace accel
