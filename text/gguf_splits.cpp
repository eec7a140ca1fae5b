#include "text/gguf_splits.h"

#include <nlohmann/json.hpp>
#include <set>

#include "core/base/text.h"

namespace accel {
namespace {

/// A pre_tokenizer that splits at `pattern` ("" for ByteLevel's own), after single digits where
/// `digits` is set.
struct GgufSplit {
  const char* name;
  const char* pattern;
  bool digits;
  bool ignore_merges;  ///< of the model
};

constexpr auto kThreeDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr GgufSplit kGgufSplits[] = {
    {"gpt-2", "", false, false},
    {"smollm", "", true, false},
    {"llama-bpe", kThreeDigits, false, true},
    {"dbrx", kThreeDigits, false, false},
    {"qwen2",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     false, false},
    {"tekken",
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     false, true},
};

/// The steps of a pre_tokenizer, itself or those of a sequence.
std::vector<JsonNode> steps_of(const JsonNode& node) {
  if (node.is_null()) return {};
  if (node.type() == "Sequence") return node.at("pretokenizers").items();
  return {node};
}

bool is_byte_level(const JsonNode& step, bool splits) {
  return step.type() == "ByteLevel" && !step.flag_or("add_prefix_space", true) &&
         step.flag_or("use_regex", true) == splits;
}

bool is_digits(const JsonNode& step) {
  return step.type() == "Digits" && step.flag_or("individual_digits", false);
}

bool is_split_at(const JsonNode& step, const std::string& pattern) {
  if (step.type() != "Split" || step.at("behavior").text() != "Isolated") return false;
  if (step.flag_or("invert", false) || !step.at("pattern").is_object()) return false;
  return step.at("pattern").text_or("Regex", "") == pattern;
}

bool matches(const GgufSplit& split, const std::vector<JsonNode>& steps) {
  const std::string pattern = split.pattern;
  const bool has_first = split.digits || !pattern.empty();
  if (steps.size() != (has_first ? 2 : 1)) return false;
  if (split.digits && !is_digits(steps.front())) return false;
  if (!pattern.empty() && !is_split_at(steps.front(), pattern)) return false;
  return is_byte_level(steps.back(), pattern.empty());
}

}  // namespace

std::string gguf_split(const JsonNode& file) {
  const std::vector<JsonNode> steps = steps_of(file.find("pre_tokenizer"));
  const bool ignores_merges = file.at("model").flag_or("ignore_merges", false);
  for (const GgufSplit& split : kGgufSplits) {
    if (split.ignore_merges == ignores_merges && matches(split, steps)) return split.name;
  }
  return "";
}

std::string gguf_splits_text() {
  std::vector<std::string> names;
  for (const GgufSplit& split : kGgufSplits) names.emplace_back(split.name);
  return quoted_list(names);
}

}  // namespace accel
