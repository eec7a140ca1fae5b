#include "runner/tokenizers/train.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "core/error.h"
#include "core/json_text.h"
#include "runner/tokenizers/learn_merges.h"
#include "runner/tokenizers/unicode.h"
#include "runner/tokenizers/word_counts.h"

namespace accel {
namespace {

using nlohmann::ordered_json;

constexpr auto kContinues = "##";
constexpr size_t kMostCharacters = 1000;  ///< of WordPiece; rarer ones are unknown

/// What does not depend on the texts: a tokenizer.json with an empty model.
ordered_json tokenizer_frame(const TrainingOptions& options) {
  if (options.wordpiece) {
    return ordered_json::parse(R"({"version": "1.0", "truncation": null, "padding": null,
      "added_tokens": [], "normalizer": {"type": "BertNormalizer", "clean_text": true,
      "handle_chinese_chars": true, "strip_accents": null, "lowercase": )" +
                               std::string(options.cased ? "false" : "true") +
                               R"(}, "pre_tokenizer": {"type": "BertPreTokenizer"},
      "post_processor": null, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
      "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
      "max_input_chars_per_word": 100, "vocab": {}}})");
  }
  return ordered_json::parse(R"({"version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
    "use_regex": true}, "post_processor": {"type": "ByteLevel", "add_prefix_space": true,
    "trim_offsets": false, "use_regex": true}, "decoder": {"type": "ByteLevel",
    "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null,
    "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
    "byte_fallback": false, "ignore_merges": false, "vocab": {}, "merges": []}})");
}

ordered_json bert_post_processor(int32_t cls, int32_t sep) {
  const auto special = [](const char* token, int type) {
    return ordered_json{{"SpecialToken", {{"id", token}, {"type_id", type}}}};
  };
  const auto text = [](const char* which, int type) {
    return ordered_json{{"Sequence", {{"id", which}, {"type_id", type}}}};
  };
  const auto entry = [](const char* token, int32_t id) {
    return ordered_json{{"id", token},
                        {"ids", ordered_json::array({id})},
                        {"tokens", ordered_json::array({token})}};
  };
  return {
      {"type", "TemplateProcessing"},
      {"single", {special("[CLS]", 0), text("A", 0), special("[SEP]", 0)}},
      {"pair",
       {special("[CLS]", 0), text("A", 0), special("[SEP]", 0), text("B", 1), special("[SEP]", 1)}},
      {"special_tokens", {{"[CLS]", entry("[CLS]", cls)}, {"[SEP]", entry("[SEP]", sep)}}}};
}

ordered_json special_token(const std::string& token, int64_t id) {
  return {{"id", id},        {"content", token},    {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

/// The tokens so far, by spelling and in the order of their ids.
class TokenList {
 public:
  /// The id of the token, which is added when it is new.
  int32_t id_of(const std::string& token) {
    const auto [entry, added] = ids_.emplace(token, static_cast<int32_t>(tokens_.size()));
    if (added) tokens_.push_back(token);
    return entry->second;
  }
  bool has(const std::string& token) const { return ids_.contains(token); }
  const std::string& operator[](int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<std::string> tokens_;
};

/// The characters that words begin with or go on with, as tokens; the most frequent ones.
std::vector<std::string> wordpiece_characters(const WordCounts& words) {
  std::map<std::string, int64_t> counts;
  for (const auto& [word, count] : words) {
    for (size_t at = 0; at < word.size(); at += character_at(word, at).bytes) {
      counts[word.substr(at, character_at(word, at).bytes)] += count;
    }
  }
  std::vector<std::pair<std::string, int64_t>> ranked(counts.begin(), counts.end());
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (ranked.size() > kMostCharacters) ranked.resize(kMostCharacters);
  std::vector<std::string> characters;
  for (auto& [character, count] : ranked) characters.push_back(std::move(character));
  std::sort(characters.begin(), characters.end());
  return characters;
}

/// Words as symbols; those with a character that is no token are left out.
std::vector<CountedWord> as_symbols(const WordCounts& words, bool wordpiece, TokenList& tokens) {
  std::vector<CountedWord> counted;
  counted.reserve(words.size());
  for (const auto& [word, count] : words) {
    CountedWord symbols{{}, count};
    bool known = true;
    for (size_t at = 0; known && at < word.size(); at += character_at(word, at).bytes) {
      const std::string character = word.substr(at, character_at(word, at).bytes);
      const std::string token = wordpiece && at > 0 ? kContinues + character : character;
      known = tokens.has(token);
      if (known) symbols.symbols.push_back(tokens.id_of(token));
    }
    if (known) counted.push_back(std::move(symbols));
  }
  return counted;
}

TokenList first_tokens(const WordCounts& words, const TrainingOptions& options) {
  TokenList tokens;
  if (!options.wordpiece) {
    tokens.id_of("<|endoftext|>");
    tokens.id_of("<|pad|>");
    for (int byte = 0; byte < 256; ++byte) {
      tokens.id_of(byte_level_text(std::string(1, static_cast<char>(byte))));
    }
    return tokens;
  }
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) tokens.id_of(token);
  const std::vector<std::string> characters = wordpiece_characters(words);
  for (const std::string& character : characters) tokens.id_of(character);
  for (const std::string& character : characters) tokens.id_of(kContinues + character);
  return tokens;
}

/// Makes tokens until there are enough; returns what was joined.
ordered_json learn(const WordCounts& words, const TrainingOptions& options, TokenList& tokens) {
  ordered_json merges = ordered_json::array();
  std::set<std::pair<int32_t, int32_t>> joined;  // a token made in two ways can meet the same twice
  learn_merges(as_symbols(words, options.wordpiece, tokens), [&](int32_t left, int32_t right) {
    if (tokens.size() >= options.vocab_size) return -1;
    const std::string first = tokens[left], second = tokens[right];
    if (joined.emplace(left, right).second) merges.push_back(ordered_json::array({first, second}));
    const bool marked = options.wordpiece && second.starts_with(kContinues);
    return tokens.id_of(first +
                        (marked ? second.substr(std::string_view(kContinues).size()) : second));
  });
  return merges;
}

ordered_json config_of(const TrainingOptions& options) {
  if (options.wordpiece) {
    return {{"tokenizer_class", "BertTokenizer"},
            {"do_lower_case", !options.cased},
            {"pad_token", "[PAD]"},
            {"unk_token", "[UNK]"},
            {"cls_token", "[CLS]"},
            {"sep_token", "[SEP]"},
            {"mask_token", "[MASK]"}};
  }
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"bos_token", "<|endoftext|>"},
          {"eos_token", "<|endoftext|>"},
          {"pad_token", "<|pad|>"}};
}

}  // namespace

TrainedTokenizer train_tokenizer(const std::vector<std::string_view>& texts,
                                 const TrainingOptions& options) {
  ordered_json file = tokenizer_frame(options);
  const nlohmann::json frame = file;
  const JsonPlace place(frame, "");
  const auto normalizer = read_normalizer(place.at("normalizer"));
  const auto pre_tokenizer = read_pre_tokenizer(place.at("pre_tokenizer"));
  const WordCounts words = count_words(texts, normalizer.get(), *pre_tokenizer);
  if (words.empty()) throw DataError("the texts hold no word to learn from", "name other files");
  TokenList tokens = first_tokens(words, options);
  const int64_t special = options.wordpiece ? 5 : 2;
  if (tokens.size() > options.vocab_size) {
    throw Error(ExitCode::kRecipe,
                "a vocabulary of " + std::to_string(options.vocab_size) + " is too small: the " +
                    std::to_string(tokens.size()) +
                    " single characters and special tokens need more",
                "use --vocab-size " + std::to_string(tokens.size()) + " or more");
  }
  const ordered_json merges = learn(words, options, tokens);
  if (!options.wordpiece) file["model"]["merges"] = merges;
  if (options.wordpiece) file["post_processor"] = bert_post_processor(2, 3);
  auto& vocabulary = file["model"]["vocab"].get_ref<ordered_json::object_t&>();
  for (int64_t id = 0; id < tokens.size(); ++id) {
    const std::string& token = tokens[static_cast<int32_t>(id)];
    vocabulary.push_back({token, id});  // operator[] would look through all of them
    if (id < special) file["added_tokens"].push_back(special_token(token, id));
  }
  return {file.dump(1) + "\n", config_of(options).dump(1) + "\n", tokens.size()};
}

}  // namespace accel
