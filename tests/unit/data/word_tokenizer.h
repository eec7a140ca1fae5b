// A tokenizer small enough that a test can write out what it gives: words between spaces, numbered
// by their length, between two special tokens.
#pragma once

#include <algorithm>
#include <string>

#include "text/tokenizer.h"

namespace accel {

/// A word of n letters is token n. Texts begin with 100 and end with 101, as do those of a pair,
/// the second of which has no token before it.
class WordTokenizer final : public Tokenizer {
 public:
  WordTokenizer() {
    special_.pad = 99;
    special_.cls = 100;
    special_.sep = 101;
  }

  std::vector<int32_t> encode(std::string_view text, bool with_special) const override {
    std::vector<int32_t> ids;
    if (with_special) ids.push_back(100);
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find(' ', at), text.size());
      if (end > at) ids.push_back(static_cast<int32_t>(end - at));
      at = end + 1;
    }
    if (with_special) ids.push_back(101);
    return ids;
  }
  TokenPair encode_pair(std::string_view first, std::string_view second) const override {
    TokenPair pair{encode(first, true), {}};
    pair.types.assign(pair.ids.size(), 0);
    for (const int32_t id : encode(second, false)) pair.ids.push_back(id);
    pair.ids.push_back(101);
    pair.types.resize(pair.ids.size(), 1);
    return pair;
  }
  std::string decode(std::span<const int32_t>, bool) const override { return ""; }
  int64_t vocab_size() const override { return 102; }
  std::optional<int32_t> id_of(std::string_view) const override { return {}; }
  std::string token(int32_t) const override { return ""; }
  const SpecialTokens& special() const override { return special_; }
  const std::string& digest() const override { return digest_; }

 private:
  SpecialTokens special_;
  std::string digest_ = "0123456789abcdef";
};

}  // namespace accel
