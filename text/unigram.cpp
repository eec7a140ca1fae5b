// Unigram: the most likely segmentation of a word into tokens (Viterbi).
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/format_error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "text/flat_map.h"
#include "text/token_model.h"
#include "text/unicode.h"
#include "text/word_cache.h"

namespace accel {
namespace {

constexpr double kUnknownPenalty = 10.0;  ///< below the least likely token

/// Trie of tokens by their bytes.
class TokenTrie {
 public:
  TokenTrie(const Vocabulary& vocabulary, size_t bytes) : edges_(bytes) {
    for (int64_t id = 0; id < vocabulary.size(); ++id) {
      const std::string* token = vocabulary.token(id);
      if (!token || token->empty()) continue;
      uint32_t node = 0;
      for (const char c : *token) node = step_or_add(node, c);
      tokens_[node] = static_cast<int32_t>(id);
    }
  }

  static constexpr uint32_t kNowhere = ~uint32_t{0};
  uint32_t step(uint32_t node, char c) const {
    const uint32_t* next = edges_.find(key(node, c));
    return next ? *next : kNowhere;
  }
  /// -1 without a token at this node.
  int32_t token(uint32_t node) const { return tokens_[node]; }

 private:
  static uint64_t key(uint32_t node, char c) {
    return static_cast<uint64_t>(node) << 8 | static_cast<unsigned char>(c);
  }
  uint32_t step_or_add(uint32_t node, char c) {
    if (const uint32_t* next = edges_.find(key(node, c))) return *next;
    const auto added = static_cast<uint32_t>(tokens_.size());
    edges_.insert(key(node, c), added);
    tokens_.push_back(-1);
    return added;
  }

  FlatMap<uint32_t> edges_;
  std::vector<int32_t> tokens_ = {-1};
};

struct UnigramTokens {
  Vocabulary vocabulary;
  std::vector<double> scores;  ///< by id
  size_t bytes = 0;            ///< of all tokens
};

class Unigram final : public TokenModel {
 public:
  Unigram(UnigramTokens tokens, std::optional<int32_t> unknown, bool byte_fallback)
      : vocabulary_(std::move(tokens.vocabulary)),
        scores_(std::move(tokens.scores)),
        trie_(vocabulary_, tokens.bytes),
        unknown_(unknown),
        unknown_score_(*std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty),
        bytes_(byte_tokens(vocabulary_)),
        byte_fallback_(byte_fallback) {}

  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void tokenize(std::string_view word, std::vector<int32_t>& ids) const override {
    if (cache_.find(word, ids)) return;
    const size_t before = ids.size();
    add_best(word, ids);
    cache_.keep(word, ids.data() + before, ids.data() + ids.size());
  }

 private:
  struct Step {
    double score = 0;
    size_t from = kNoStep;
    int32_t id = 0;
  };
  static constexpr size_t kNoStep = std::numeric_limits<size_t>::max();

  static void improve(Step& step, const Step& candidate) {
    if (step.from == kNoStep || candidate.score > step.score) step = candidate;
  }

  /// The best segmentation up to each position.
  std::vector<Step> best_steps(std::string_view text) const {
    std::vector<Step> best(text.size() + 1);
    for (size_t at = 0; at < text.size();) {
      const double score = best[at].score;
      const size_t character = character_at(text, at).bytes;
      bool alone = false;  // whether the character is a token
      uint32_t node = 0;
      for (size_t end = at; end < text.size();) {
        node = trie_.step(node, text[end++]);
        if (node == TokenTrie::kNowhere) break;
        const int32_t id = trie_.token(node);
        if (id < 0) continue;
        improve(best[end], {scores_[static_cast<size_t>(id)] + score, at, id});
        alone = alone || end - at == character;
      }
      if (!alone) {
        if (!unknown_) refuse_unknown(text.substr(at, character));
        improve(best[at + character], {unknown_score_ + score, at, *unknown_});
      }
      at += character;
    }
    return best;
  }

  void add_best(std::string_view text, std::vector<int32_t>& ids) const {
    const std::vector<Step> best = best_steps(text);
    std::vector<size_t> bounds = {
        text.size()};  // from the end; adjacent unknown tokens are one piece
    bool after_unknown = false;
    for (size_t end = text.size(); end > 0; end = best[end].from) {
      const bool unknown = unknown_ && best[end].id == *unknown_;
      if (unknown && after_unknown) bounds.pop_back();
      bounds.push_back(best[end].from);
      after_unknown = unknown;
    }
    for (size_t i = bounds.size() - 1; i > 0; --i) {
      add_piece(text.substr(bounds[i], bounds[i - 1] - bounds[i]), ids);
    }
  }

  void add_piece(std::string_view piece, std::vector<int32_t>& ids) const {
    if (const auto id = vocabulary_.find(piece)) {
      ids.push_back(*id);
      return;
    }
    const auto has_token = [&](char c) { return bytes_[static_cast<unsigned char>(c)] >= 0; };
    if (byte_fallback_ && std::all_of(piece.begin(), piece.end(), has_token)) {
      for (const char c : piece) ids.push_back(bytes_[static_cast<unsigned char>(c)]);
      return;
    }
    if (!unknown_) refuse_unknown(piece);
    ids.push_back(*unknown_);
  }

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  TokenTrie trie_;
  std::optional<int32_t> unknown_;
  double unknown_score_;
  std::vector<int32_t> bytes_;
  bool byte_fallback_;
  WordCache cache_;
};

/// [["token", score], ...]; the id is the position in the list.
UnigramTokens read_scored_tokens(const JsonNode& node) {
  const auto& entries = node.json();
  if (!entries.is_array() || entries.empty()) node.refuse("must be a list of [token, score]");
  UnigramTokens tokens;
  tokens.vocabulary.reserve(entries.size());
  tokens.scores.reserve(entries.size());
  for (const auto& entry : entries) {
    const JsonNode at(entry, text("{}[{}]", node.path(), tokens.scores.size()));
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string()) {
      at.refuse("must be [token, score]");
    }
    const double score = JsonNode(entry[1], at.path() + "[1]").number();
    try {
      // The trainer of the tokenizers package writes a piece twice when texts hold special tokens.
      tokens.vocabulary.add_last(entry[0].get<std::string>(),
                                 static_cast<int32_t>(tokens.scores.size()));
    } catch (const FormatError& error) {
      at.refuse(error.what());
    }
    tokens.scores.push_back(score);
    tokens.bytes += entry[0].get_ref<const std::string&>().size();
  }
  return tokens;
}

}  // namespace

std::unique_ptr<TokenModel> read_unigram(const JsonNode& node) {
  node.only({"unk_id", "vocab", "byte_fallback"});
  UnigramTokens tokens = read_scored_tokens(node.at("vocab"));
  std::optional<int32_t> unknown;
  const JsonNode id = node.find("unk_id");
  if (!id.is_null()) unknown = static_cast<int32_t>(id.integer(0, tokens.vocabulary.size() - 1));
  return std::make_unique<Unigram>(std::move(tokens), unknown,
                                   node.flag_or("byte_fallback", false));
}

}  // namespace accel
