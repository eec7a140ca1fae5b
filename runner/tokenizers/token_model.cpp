#include "runner/tokenizers/token_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/utf8.h"
#include "runner/formats/format_error.h"

namespace accel {

std::unique_ptr<TokenModel> read_token_model(const JsonPlace& place) {
  // Old files leave the type out, and have merges where it is BPE.
  const bool old = place.find("type").is_null() && !place.find("merges").is_null();
  const std::string type = old ? "BPE" : place.type();
  if (type == "BPE") return read_bpe(place);
  if (type == "WordPiece") return read_wordpiece(place);
  if (type == "WordLevel") return read_word_level(place);
  if (type == "Unigram") return read_unigram(place);
  place.refuse_type("BPE, WordPiece, WordLevel, Unigram");
}

Vocabulary read_vocabulary(const JsonPlace& place) {
  if (!place.is_object()) place.refuse("must be an object of tokens and ids");
  const auto& members = place.json();
  const auto most = static_cast<int64_t>(members.size()) + kIdRoom;
  int64_t largest = -1;
  for (const auto& [token, id] : members.items()) {
    if (!id.is_number_integer()) place.find(token).integer(0, most);
    const auto value = id.get<int64_t>();
    if (value < 0 || value > most) place.find(token).integer(0, most);
    largest = std::max(largest, value);
  }
  Vocabulary vocabulary;
  vocabulary.reserve(static_cast<size_t>(largest + 1));
  for (const auto& [token, id] : members.items()) {
    try {
      vocabulary.add(token, id.get<int32_t>());
    } catch (const FormatError& error) {
      place.refuse(error.what());
    }
  }
  return vocabulary;
}

void refuse_unknown(std::string_view word) {
  throw DataError(
      "the tokenizer has no token for '" + printable(word) + "', and none for the unknown",
      "use a tokenizer whose model has 'unk_token'");
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
