// Byte-pair encoding: a word's characters, joined by the rules in their order.
#include <nlohmann/json.hpp>

#include "core/utf8.h"
#include "runner/formats/format_error.h"
#include "runner/tokenizers/merges.h"
#include "runner/tokenizers/token_model.h"
#include "runner/tokenizers/unicode.h"
#include "runner/tokenizers/word_cache.h"

namespace accel {
namespace {

struct BpeOptions {
  std::optional<int32_t> unknown;
  bool refuse_unknown = false;  ///< there is to be a token for the unknown, and it has no id
  std::string prefix;           ///< in front of every character but the first
  std::string suffix;           ///< behind the last
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  ///< a word that is a token stays one
};

class Bpe final : public TokenModel {
 public:
  Bpe(Vocabulary vocabulary, MergeTable merges, BpeOptions options)
      : vocabulary_(std::move(vocabulary)),
        merges_(std::move(merges)),
        options_(std::move(options)),
        characters_(vocabulary_.count()),
        bytes_(byte_tokens(vocabulary_)) {
    for (int64_t id = 0; id < vocabulary_.size(); ++id) {
      const std::string* token = vocabulary_.token(id);
      if (!token || token->empty() || character_length(*token, 0) != token->size()) continue;
      characters_.insert(character_at(*token, 0).code, static_cast<int32_t>(id));
    }
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void tokenize(std::string_view word, std::vector<int32_t>& ids) const override {
    if (options_.ignore_merges) {
      if (const auto id = vocabulary_.find(word)) {
        ids.push_back(*id);
        return;
      }
    }
    if (cache_.find(word, ids)) return;
    std::vector<int32_t> symbols;
    add_symbols(word, symbols);
    merges_.apply(symbols);
    cache_.keep(word, symbols.data(), symbols.data() + symbols.size());
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }

 private:
  std::optional<int32_t> symbol(std::string_view word, size_t at, size_t length) const {
    const bool prefixed = at > 0 && !options_.prefix.empty();
    const bool suffixed = at + length == word.size() && !options_.suffix.empty();
    if (!prefixed && !suffixed) {
      const int32_t* id = characters_.find(character_at(word, at).code);
      return id ? std::optional(*id) : std::nullopt;
    }
    return vocabulary_.find(spelled(word, at, length));
  }

  std::string spelled(std::string_view word, size_t at, size_t length) const {
    std::string text(at > 0 ? options_.prefix : "");
    text.append(word.substr(at, length));
    if (at + length == word.size()) text.append(options_.suffix);
    return text;
  }

  /// False when one of the bytes has no token.
  bool add_bytes(std::string_view text, std::vector<int32_t>& symbols) const {
    if (!options_.byte_fallback) return false;
    for (const char c : text) {
      if (bytes_[static_cast<unsigned char>(c)] < 0) return false;
    }
    for (const char c : text) symbols.push_back(bytes_[static_cast<unsigned char>(c)]);
    return true;
  }

  /// The unknown of a word are added when the next known one is, bytes in between or not: so does
  /// the Python package.
  void add_symbols(std::string_view word, std::vector<int32_t>& symbols) const {
    bool pending = false;
    for (size_t at = 0, length = 0; at < word.size(); at += length) {
      length = character_at(word, at).bytes;
      if (const auto id = symbol(word, at, length)) {
        if (pending) symbols.push_back(*options_.unknown);
        pending = false;
        symbols.push_back(*id);
      } else if (!add_bytes(spelled(word, at, length), symbols)) {
        if (options_.refuse_unknown) refuse_unknown(word.substr(at, length));
        if (!options_.unknown) continue;  // goes without a trace, as in the Python package
        if (pending && !options_.fuse_unknown) symbols.push_back(*options_.unknown);
        pending = true;
      }
    }
    if (pending) symbols.push_back(*options_.unknown);
  }

  Vocabulary vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  FlatMap<int32_t> characters_;
  std::vector<int32_t> bytes_;
  WordCache cache_;
};

/// ["a", "b"] or, in old files, "a b".
std::pair<std::string, std::string> two_of(const nlohmann::json& rule) {
  if (rule.is_array() && rule.size() == 2 && rule[0].is_string() && rule[1].is_string()) {
    return {rule[0].get<std::string>(), rule[1].get<std::string>()};
  }
  if (rule.is_string()) {
    const auto& text = rule.get_ref<const std::string&>();
    const size_t blank = text.find(' ');
    if (blank != text.npos && text.find(' ', blank + 1) == text.npos) {
      return {text.substr(0, blank), text.substr(blank + 1)};
    }
  }
  throw FormatError("must be two tokens");
}

MergeTable read_merges(const JsonPlace& place, const Vocabulary& vocabulary,
                       const std::string& prefix) {
  const auto& rules = place.json();
  if (!rules.is_array()) place.refuse("must be a list");
  MergeTable table(rules.size());
  for (size_t rank = 0; rank < rules.size(); ++rank) {
    const auto id_of = [&](const std::string& token) {
      const auto id = vocabulary.find(token);
      if (!id)
        throw FormatError("names '" + printable(token) + "', which is not in the vocabulary");
      return *id;
    };
    try {
      const auto [left, right] = two_of(rules[rank]);
      const bool prefixed = !prefix.empty() && right.size() >= prefix.size();
      const std::string made = left + (prefixed ? right.substr(prefix.size()) : right);
      const Merge merge{static_cast<int32_t>(rank), id_of(made)};
      table.add(id_of(left), id_of(right), merge);
    } catch (const FormatError& error) {
      JsonPlace(rules[rank], place.path() + "[" + std::to_string(rank) + "]").refuse(error.what());
    }
  }
  return table;
}

}  // namespace

std::unique_ptr<TokenModel> read_bpe(const JsonPlace& place) {
  place.only({"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
              "byte_fallback", "ignore_merges", "vocab", "merges"});
  const JsonPlace dropout = place.find("dropout");
  if (!dropout.is_null() && dropout.number() != 0) {
    dropout.refuse("is not supported: ids would be random; it must be null");
  }
  Vocabulary vocabulary = read_vocabulary(place.at("vocab"));
  BpeOptions options;
  options.prefix = place.text_or("continuing_subword_prefix", "");
  options.suffix = place.text_or("end_of_word_suffix", "");
  options.fuse_unknown = place.flag_or("fuse_unk", false);
  options.byte_fallback = place.flag_or("byte_fallback", false);
  options.ignore_merges = place.flag_or("ignore_merges", false);
  const JsonPlace unknown = place.find("unk_token");
  if (!unknown.is_null()) {
    options.unknown = vocabulary.find(unknown.text());
    options.refuse_unknown = !options.unknown;  // found out where one is met: GPT-2's own has ""
  }
  MergeTable merges = read_merges(place.at("merges"), vocabulary, options.prefix);
  return std::make_unique<Bpe>(std::move(vocabulary), std::move(merges), std::move(options));
}

}  // namespace accel
