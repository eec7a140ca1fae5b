// WordPiece: the longest matching token from the left. WordLevel: whole words.
#include "text/token_model.h"
#include "text/unicode.h"

namespace accel {
namespace {

constexpr int64_t kMaxWordCharacters = 100'000;

class Wordpiece final : public TokenModel {
 public:
  Wordpiece(Vocabulary vocabulary, const JsonNode& node)
      : vocabulary_(std::move(vocabulary)),
        unknown_(vocabulary_.find(node.at("unk_token").text())),
        prefix_(node.text_or("continuing_subword_prefix", "##")) {
    const JsonNode longest = node.find("max_input_chars_per_word");
    if (!longest.is_null()) {
      max_characters_ = static_cast<size_t>(longest.integer(0, kMaxWordCharacters));
    }
    for (int64_t id = 0; id < vocabulary_.size(); ++id) {
      if (const std::string* token = vocabulary_.token(id)) {
        longest_token_ = std::max(longest_token_, token->size());
      }
    }
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void tokenize(std::string_view word, std::vector<int32_t>& ids) const override {
    size_t characters = 0;
    for (const char c : word) characters += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    const size_t before = ids.size();
    if (characters <= max_characters_ && add_pieces(word, ids)) return;
    ids.resize(before);
    if (!unknown_) refuse_unknown(word);
    ids.push_back(*unknown_);
  }

 private:
  /// False when no token matches the rest of the word.
  bool add_pieces(std::string_view word, std::vector<int32_t>& ids) const {
    std::string candidate;
    for (size_t at = 0; at < word.size();) {
      candidate.assign(at > 0 ? prefix_ : "");
      const size_t room = longest_token_ - std::min(longest_token_, candidate.size());
      const size_t marked = candidate.size();
      candidate.append(word.substr(at, room));
      std::optional<int32_t> id;
      while (candidate.size() > marked && !(id = vocabulary_.find(candidate))) candidate.pop_back();
      if (!id) return false;
      ids.push_back(*id);
      at += candidate.size() - marked;
    }
    return true;
  }

  Vocabulary vocabulary_;
  std::optional<int32_t> unknown_;
  std::string prefix_;
  size_t max_characters_ = 100;
  size_t longest_token_ = 0;
};

class WordLevel final : public TokenModel {
 public:
  WordLevel(Vocabulary vocabulary, const std::string& unknown)
      : vocabulary_(std::move(vocabulary)), unknown_(vocabulary_.find(unknown)) {}

  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void tokenize(std::string_view word, std::vector<int32_t>& ids) const override {
    auto id = vocabulary_.find(word);
    if (!id) id = unknown_;
    if (!id) refuse_unknown(word);
    ids.push_back(*id);
  }

 private:
  Vocabulary vocabulary_;
  std::optional<int32_t> unknown_;
};

}  // namespace

std::unique_ptr<TokenModel> read_wordpiece(const JsonNode& node) {
  node.only({"unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  return std::make_unique<Wordpiece>(read_vocabulary(node.at("vocab")), node);
}

std::unique_ptr<TokenModel> read_word_level(const JsonNode& node) {
  node.only({"unk_token", "vocab"});
  return std::make_unique<WordLevel>(read_vocabulary(node.at("vocab")),
                                     node.at("unk_token").text());
}

}  // namespace accel
