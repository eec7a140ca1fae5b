#include "compat/trainers/program_index.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <utility>

#include "core/base/text.h"

namespace accel {
namespace {

/// A component in a component, such as the teacher of `distill`, is indexed once.
constexpr int kDeepestComponent = 1;

/// A feature of other trainers that this program lacks.
struct Lack {
  std::string_view feature;
  const char* sentence;
  /// Words of names that options or components of the feature would have; `*` is any end.
  std::string_view words;
};

constexpr Lack kLacks[] = {
    {"adapter", "the only adapter is LoRA", "oft ia3 prefix_tuning prompt_tuning"},
    {"compilation", "models are not compiled", "compile*"},
    {"custom tokens", "tokens are those of the tokenizer's files", "special_tokens added_tokens"},
    {"distillation", "language models are not distilled", "teacher_lm logits_kd"},
    {"fault tolerance", "DiLoCo is not available", "diloco"},
    {"fp8", "fp8 is not available", "fp8* float8*"},
    {"gradient projection", "APOLLO and BAdam are not available", "apollo* badam*"},
    {"ktransformers", "KTransformers is not available", "ktransformers*"},
    {"label smoothing", "the loss of language models has no label smoothing",
     "causal_lm.label_smoothing"},
    {"layer freezing", "parts of a model are not frozen by a schedule", "lisa llama_pro"},
    {"lora initialization", "this start of LoRA's matrices is not available", "loftq eva"},
    {"lora layers", "adapters of some layers or tokens are not converted", ""},
    {"lora of parameters", "LoRA adapts linear layers only", "target_parameters"},
    {"lora patterns", "all layers of an adapter have one rank and alpha", "rank_pattern"},
    {"loraplus", "LoRA+ is not available", "loraplus* lr_ratio"},
    {"mixture of depths", "mixture of depths is not available", "mixture_of_depths"},
    {"other loss", "language models are trained on cross-entropy", "dft asft eaft diffusion"},
    {"preference", "this kind of preference or reward training is not available",
     "process_reward ld_alpha sync_ref"},
    {"qat", "quantization-aware training is not available", "qat"},
    {"quantization", "this kind of quantized weights is not available", "gptq* awq* hqq* torchao*"},
    {"relora", "ReLoRA is not available", "relora*"},
    {"rl", "this kind of reinforcement learning is not available", "ppo value_model"},
    {"sharding", "models are not sharded in this way", "sharded_ddp"},
    {"upload", "nothing is uploaded", "push_to_hub hub_model*"},
    {"vision language", "models of images and text are not available", "vision_tower projector"},
};

bool is_letter_or_digit(char c) {
  return std::isalnum(static_cast<unsigned char>(c));
}

/// Whether the name has the word, or with `*` at its end a word that starts so.
bool has_word_of(const std::string& name, std::string_view word) {
  const bool open = word.ends_with('*');
  if (open) word.remove_suffix(1);
  for (size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool ends = open || end == name.size() || !is_letter_or_digit(name[end]);
    if (ends && (at == 0 || !is_letter_or_digit(name[at - 1]))) return true;
  }
  return false;
}

}  // namespace

ProgramIndex::ProgramIndex(const std::vector<FieldInfo>& recipe,
                           const std::vector<const CatalogIndex*>& kinds,
                           std::function<bool(const std::string&)> reads)
    : reads_(std::move(reads)) {
  for (const CatalogIndex* kind : kinds) {
    for (const std::string& name : kind->names()) components_.insert(kind->kind() + ' ' + name);
  }
  add_fields(recipe, "", kinds, 0);
}

void ProgramIndex::add_fields(const std::vector<FieldInfo>& fields, const std::string& prefix,
                              const std::vector<const CatalogIndex*>& kinds, int depth) {
  for (const FieldInfo& field : fields) {
    const std::string key = prefix + field.name;
    keys_.insert(key);
    add_fields(field.fields, key + '.', kinds, depth);
    if (field.kind.empty() || depth > kDeepestComponent) continue;
    for (const CatalogIndex* kind : kinds) {
      if (kind->kind() != field.kind) continue;
      for (const auto& [name, info] : kind->items()) {
        add_fields(info.fields, key + '.', kinds, depth + 1);
      }
    }
  }
}

std::string ProgramIndex::named(std::string_view words) const {
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    const std::string_view word = words.substr(begin, end - begin);
    for (const std::set<std::string>* names : {&keys_, &components_}) {
      for (const std::string& name : *names) {
        if (!word.empty() && has_word_of(name, word)) return name;
      }
    }
    begin = end + 1;
  }
  return {};
}

std::string lack_of(std::string_view feature, const ProgramIndex& program) {
  const auto* lack = std::find_if(std::begin(kLacks), std::end(kLacks),
                                  [&](const Lack& each) { return each.feature == feature; });
  if (lack == std::end(kLacks)) throw std::logic_error("no such feature");
  const std::string name = program.named(lack->words);
  return name.empty() ? lack->sentence
                      : text("accel-run has '{}', which the import does not write", name);
}

}  // namespace accel
