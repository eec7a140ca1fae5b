#include "text/token_model.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace accel {

void Vocabulary::reserve(size_t ids) {
  tokens_.resize(ids);
  taken_.resize(ids);
  ids_.reserve(ids);
}

void Vocabulary::add(const std::string& token, int32_t id) {
  if (find(token)) throw FormatError(text("gives '{}' two ids", printable(token)));
  add_last(token, id);
}

void Vocabulary::add_last(const std::string& token, int32_t id) {
  const auto at = static_cast<size_t>(id);
  if (at >= tokens_.size()) throw FormatError("has an id out of bounds");
  if (taken_[at]) {
    throw FormatError(
        text("gives id {} to '{}' and to '{}'", id, printable(tokens_[at]), printable(token)));
  }
  tokens_[at] = token;
  ids_.insert_or_assign(tokens_[at], id);
  taken_[at] = true;
  size_ = std::max(size_, static_cast<int64_t>(id) + 1);
}

const std::string* Vocabulary::token(int64_t id) const {
  if (id < 0 || id >= size_ || !taken_[static_cast<size_t>(id)]) return nullptr;
  return &tokens_[static_cast<size_t>(id)];
}

std::unique_ptr<TokenModel> read_token_model(const JsonNode& node) {
  // Old files have no type, and merges if they are BPE.
  const bool old = node.find("type").is_null() && !node.find("merges").is_null();
  const std::string type = old ? "BPE" : node.type();
  if (type == "BPE") return read_bpe(node);
  if (type == "WordPiece") return read_wordpiece(node);
  if (type == "WordLevel") return read_word_level(node);
  if (type == "Unigram") return read_unigram(node);
  node.refuse_type("BPE, WordPiece, WordLevel, Unigram");
}

Vocabulary read_vocabulary(const JsonNode& node) {
  if (!node.is_object()) node.refuse("must be an object that maps tokens to ids");
  const auto& members = node.json();
  const auto most = static_cast<int64_t>(members.size()) + kIdRoom;
  int64_t largest = -1;
  for (const auto& [token, id] : members.items()) {
    if (!id.is_number_integer()) node.find(token).integer(0, most);
    const auto value = id.get<int64_t>();
    if (value < 0 || value > most) node.find(token).integer(0, most);
    largest = std::max(largest, value);
  }
  Vocabulary vocabulary;
  vocabulary.reserve(static_cast<size_t>(largest + 1));
  for (const auto& [token, id] : members.items()) {
    try {
      vocabulary.add(token, id.get<int32_t>());
    } catch (const FormatError& error) {
      node.refuse(error.what());
    }
  }
  return vocabulary;
}

void refuse_unknown(std::string_view word) {
  throw DataError(text("the tokenizer has no token for '{}' and no unknown token", printable(word)),
                  "use a tokenizer with 'unk_token'");
}

std::vector<int32_t> byte_tokens(const Vocabulary& vocabulary) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::vector<int32_t> ids;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string token = {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
    const auto id = vocabulary.find(token);
    ids.push_back(id ? *id : -1);
  }
  return ids;
}

}  // namespace accel
