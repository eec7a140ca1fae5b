// Byte-pair encoding: merges a word's characters in the order of the rules.
#include <nlohmann/json.hpp>

#include "core/base/format_error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "text/merges.h"
#include "text/token_model.h"
#include "text/unicode.h"
#include "text/word_cache.h"

namespace accel {
namespace {

struct BpeOptions {
  std::optional<int32_t> unknown;
  bool refuse_unknown = false;  ///< the unknown token has no id
  std::string prefix;           ///< of every character but the first
  std::string suffix;           ///< of the last character
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  ///< a word that is a token is not split
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
    std::string out(at > 0 ? options_.prefix : "");
    out.append(word.substr(at, length));
    if (at + length == word.size()) out.append(options_.suffix);
    return out;
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

  /// A pending unknown token is added before the next known one, byte tokens in between or not, as
  /// Hugging Face tokenizers does.
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
        if (!options_.unknown) continue;  // dropped, as in Hugging Face tokenizers
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
std::pair<std::string, std::string> merge_rule(const nlohmann::json& rule) {
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

MergeTable read_merges(const JsonNode& node, const Vocabulary& vocabulary,
                       const std::string& prefix) {
  const auto& rules = node.json();
  if (!rules.is_array()) node.refuse("must be a list");
  MergeTable table(rules.size());
  for (size_t rank = 0; rank < rules.size(); ++rank) {
    const auto id_of = [&](const std::string& token) {
      const auto id = vocabulary.find(token);
      if (!id)
        throw FormatError(text("names '{}', which is not in the vocabulary", printable(token)));
      return *id;
    };
    try {
      const auto [left, right] = merge_rule(rules[rank]);
      const bool prefixed = !prefix.empty() && right.size() >= prefix.size();
      const std::string made = left + (prefixed ? right.substr(prefix.size()) : right);
      const Merge merge{static_cast<int32_t>(rank), id_of(made)};
      table.add(id_of(left), id_of(right), merge);
    } catch (const FormatError& error) {
      JsonNode(rules[rank], text("{}[{}]", node.path(), rank)).refuse(error.what());
    }
  }
  return table;
}

}  // namespace

std::unique_ptr<TokenModel> read_bpe(const JsonNode& node) {
  node.only({"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
             "byte_fallback", "ignore_merges", "vocab", "merges"});
  const JsonNode dropout = node.find("dropout");
  if (!dropout.is_null() && dropout.number() != 0) {
    dropout.refuse("must be null: dropout makes ids random, which is not supported");
  }
  Vocabulary vocabulary = read_vocabulary(node.at("vocab"));
  BpeOptions options;
  options.prefix = node.text_or("continuing_subword_prefix", "");
  options.suffix = node.text_or("end_of_word_suffix", "");
  options.fuse_unknown = node.flag_or("fuse_unk", false);
  options.byte_fallback = node.flag_or("byte_fallback", false);
  options.ignore_merges = node.flag_or("ignore_merges", false);
  const JsonNode unknown = node.find("unk_token");
  if (!unknown.is_null()) {
    options.unknown = vocabulary.find(unknown.text());
    options.refuse_unknown = !options.unknown;  // refused at first use: GPT-2's file has ""
  }
  MergeTable merges = read_merges(node.at("merges"), vocabulary, options.prefix);
  return std::make_unique<Bpe>(std::move(vocabulary), std::move(merges), std::move(options));
}

}  // namespace accel
