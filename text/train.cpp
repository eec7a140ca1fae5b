#include "text/train.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/text.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/unicode.h"

namespace accel {
namespace {

constexpr int64_t kLeastCount = 2;

using PairKey = uint64_t;

PairKey key_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

struct PairUse {
  int64_t count = 0;
  std::vector<uint32_t> words;  ///< of its occurrences, also merged ones
};

struct RankedPair {
  int64_t count;
  PairKey key;
  bool operator<(const RankedPair& other) const {
    return count != other.count ? count < other.count : key > other.key;
  }
};

class MergeLearner {
 public:
  explicit MergeLearner(std::vector<CountedWord> words) : words_(std::move(words)) {
    for (uint32_t i = 0; i < words_.size(); ++i) count_pairs(i, 1);
    for (const auto& [key, use] : pairs_) queue_.push({use.count, key});
  }

  /// The most frequent pair; false when none occurs kLeastCount times.
  bool next(PairKey& key) {
    while (!queue_.empty()) {
      const RankedPair best = queue_.top();
      queue_.pop();
      const int64_t count = pairs_[best.key].count;
      if (count != best.count) {
        if (count >= kLeastCount) queue_.push({count, best.key});
        continue;
      }
      if (count < kLeastCount) return false;
      key = best.key;
      return true;
    }
    return false;
  }

  void merge(PairKey key, int32_t merged) {
    const auto left = static_cast<int32_t>(key >> 32);
    const auto right = static_cast<int32_t>(key & 0xffffffff);
    const std::vector<uint32_t> words = std::move(pairs_[key].words);
    changed_.clear();
    uint32_t last = ~uint32_t{0};
    for (const uint32_t i : words) {
      if (i == last) continue;
      last = i;
      merge_in(i, left, right, merged);
    }
    pairs_.erase(key);
    for (const PairKey other : changed_) {
      const auto found = pairs_.find(other);
      if (found != pairs_.end()) queue_.push({found->second.count, other});
    }
  }

 private:
  void count_pairs(uint32_t i, int sign) {
    const CountedWord& word = words_[i];
    for (size_t at = 0; at + 1 < word.symbols.size(); ++at) {
      const PairKey key = key_of(word.symbols[at], word.symbols[at + 1]);
      PairUse& use = pairs_[key];
      use.count += sign * word.count;
      if (sign < 0) continue;
      if (use.words.empty() || use.words.back() != i) use.words.push_back(i);
      changed_.push_back(key);
    }
  }

  void merge_in(uint32_t i, int32_t left, int32_t right, int32_t merged) {
    std::vector<int32_t>& symbols = words_[i].symbols;
    size_t at = 0;
    while (at + 1 < symbols.size() && (symbols[at] != left || symbols[at + 1] != right)) ++at;
    if (at + 1 >= symbols.size()) return;
    count_pairs(i, -1);
    size_t kept = at;
    for (; at < symbols.size(); ++kept) {
      const bool both = at + 1 < symbols.size() && symbols[at] == left && symbols[at + 1] == right;
      symbols[kept] = both ? merged : symbols[at];
      at += both ? 2 : 1;
    }
    symbols.resize(kept);
    count_pairs(i, 1);
  }

  std::vector<CountedWord> words_;
  std::unordered_map<PairKey, PairUse> pairs_;
  std::priority_queue<RankedPair> queue_;
  std::vector<PairKey> changed_;
};

}  // namespace

void learn_merges(std::vector<CountedWord> words,
                  const std::function<int32_t(int32_t left, int32_t right)>& make) {
  MergeLearner learner(std::move(words));
  PairKey key = 0;
  while (learner.next(key)) {
    const int32_t merged =
        make(static_cast<int32_t>(key >> 32), static_cast<int32_t>(key & 0xffffffff));
    if (merged < 0) return;
    learner.merge(key, merged);
  }
}

namespace {

using nlohmann::ordered_json;
using WordCounts = std::map<std::string, int64_t>;

constexpr auto kContinues = "##";
constexpr auto kTurnStart = "<|im_start|>";
constexpr auto kTurnEnd = "<|im_end|>";
constexpr auto kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\n' }}{% endif %}";
constexpr size_t kMaxCharacters = 1000;  ///< of WordPiece; rarer ones become [UNK]

// Texts are normalized in chunks of about this size to bound memory.
constexpr size_t kChunkBytes = 1 << 20;

/// The end of the chunk at `at`: before a line that begins with a word, so that runs of white space
/// stay whole.
size_t end_of_chunk(std::string_view text, size_t at) {
  size_t end = at + kChunkBytes;
  while (end < text.size()) {
    const size_t line = text.find('\n', end);
    if (line == text.npos || line + 1 >= text.size()) return text.size();
    end = line + 1;
    if (static_cast<unsigned char>(text[end]) > ' ' &&
        static_cast<unsigned char>(text[end]) < 0x80) {
      return end;
    }
  }
  return text.size();
}

/// Counts words as a tokenizer with these steps would split them. `normalizer` may be null.
WordCounts count_words(const std::vector<std::string_view>& texts, const Normalizer* normalizer,
                       const PreTokenizer& pre_tokenizer) {
  std::unordered_map<std::string, int64_t> counts;
  for (const std::string_view text : texts) {
    for (size_t at = 0, end = 0; at < text.size(); at = end) {
      end = end_of_chunk(text, at);
      NormalizedString chunk{lossy_utf8(text.substr(at, end - at))};
      if (normalizer) normalizer->apply(chunk);
      Words words;
      words.text = std::move(chunk.text);
      words.spans = {{0, words.text.size()}};
      pre_tokenizer.apply(words);
      for (const TextSpan& span : words.spans) ++counts[std::string(words.word(span))];
    }
  }
  return {counts.begin(), counts.end()};
}

/// A tokenizer.json with an empty model.
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
  const auto sequence = [](const char* which, int type) {
    return ordered_json{{"Sequence", {{"id", which}, {"type_id", type}}}};
  };
  const auto entry = [](const char* token, int32_t id) {
    return ordered_json{{"id", token},
                        {"ids", ordered_json::array({id})},
                        {"tokens", ordered_json::array({token})}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", {special("[CLS]", 0), sequence("A", 0), special("[SEP]", 0)}},
          {"pair",
           {special("[CLS]", 0), sequence("A", 0), special("[SEP]", 0), sequence("B", 1),
            special("[SEP]", 1)}},
          {"special_tokens", {{"[CLS]", entry("[CLS]", cls)}, {"[SEP]", entry("[SEP]", sep)}}}};
}

ordered_json special_token(const std::string& token, int64_t id) {
  return {{"id", id},        {"content", token},    {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

/// The vocabulary so far, by spelling and by id.
class TokenList {
 public:
  /// The id of the token; adds a new one.
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

/// The most frequent characters, sorted.
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
  if (ranked.size() > kMaxCharacters) ranked.resize(kMaxCharacters);
  std::vector<std::string> characters;
  for (auto& [character, count] : ranked) characters.push_back(std::move(character));
  std::sort(characters.begin(), characters.end());
  return characters;
}

/// Words as symbols; words with unknown characters are skipped.
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
    if (options.chatml) {
      for (const char* token : {kTurnStart, kTurnEnd}) tokens.id_of(token);
    }
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

/// Adds tokens until the vocabulary is full; returns the merges.
ordered_json learn(const WordCounts& words, const TrainingOptions& options, TokenList& tokens) {
  ordered_json merges = ordered_json::array();
  std::set<std::pair<int32_t, int32_t>>
      merged;  // pairs can recur through tokens with two derivations
  learn_merges(as_symbols(words, options.wordpiece, tokens), [&](int32_t left, int32_t right) {
    if (tokens.size() >= options.vocab_size) return -1;
    const std::string first = tokens[left], second = tokens[right];
    if (merged.emplace(left, right).second) merges.push_back(ordered_json::array({first, second}));
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
  ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                         {"bos_token", "<|endoftext|>"},
                         {"eos_token", options.chatml ? kTurnEnd : "<|endoftext|>"},
                         {"pad_token", "<|pad|>"}};
  if (options.chatml) config["chat_template"] = kChatMl;
  return config;
}

}  // namespace

TrainedTokenizer train_tokenizer(const std::vector<std::string_view>& texts,
                                 const TrainingOptions& options) {
  ordered_json file = tokenizer_frame(options);
  const nlohmann::json frame = file;
  const JsonNode node(frame, "");
  const auto normalizer = read_normalizer(node.at("normalizer"));
  const auto pre_tokenizer = read_pre_tokenizer(node.at("pre_tokenizer"));
  const WordCounts words = count_words(texts, normalizer.get(), *pre_tokenizer);
  if (words.empty()) throw DataError("the texts have no words to train on", "give other files");
  TokenList tokens = first_tokens(words, options);
  const int64_t special = options.wordpiece ? 5 : options.chatml ? 4 : 2;
  if (tokens.size() > options.vocab_size) {
    throw Error(ExitCode::kRecipe,
                text("a vocabulary of {} is too small for {} single characters and special tokens",
                     options.vocab_size, tokens.size()),
                text("use --vocab-size {} or more", tokens.size()));
  }
  const ordered_json merges = learn(words, options, tokens);
  if (!options.wordpiece) file["model"]["merges"] = merges;
  if (options.wordpiece) file["post_processor"] = bert_post_processor(2, 3);
  auto& vocabulary = file["model"]["vocab"].get_ref<ordered_json::object_t&>();
  for (int64_t id = 0; id < tokens.size(); ++id) {
    const std::string& token = tokens[static_cast<int32_t>(id)];
    vocabulary.push_back({token, id});  // operator[] would search all of them
    if (id < special) file["added_tokens"].push_back(special_token(token, id));
  }
  return {file.dump(1) + "\n", config_of(options).dump(1) + "\n", tokens.size()};
}

}  // namespace accel
