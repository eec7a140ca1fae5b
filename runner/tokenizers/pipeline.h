// A tokenizer.json with all its steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runner/tokenizers/added_tokens.h"
#include "runner/tokenizers/decoder.h"
#include "runner/tokenizers/normalizer.h"
#include "runner/tokenizers/post_processor.h"
#include "runner/tokenizers/pre_tokenizer.h"
#include "runner/tokenizers/token_model.h"
#include "runner/tokenizers/tokenizer.h"

namespace accel {

class Pipeline final : public Tokenizer {
 public:
  /// The whole of a tokenizer.json. Throws FormatError that names the place.
  explicit Pipeline(const JsonPlace& file);

  /// Known afterwards: the tokenizer must find ids first.
  void describe(SpecialTokens special, std::string digest);

  std::vector<int32_t> encode(std::string_view text, bool with_special) const override;
  TokenPair encode_pair(std::string_view first, std::string_view second) const override;
  std::string decode(std::span<const int32_t> ids, bool skip_special) const override;
  int64_t vocab_size() const override;
  std::optional<int32_t> id_of(std::string_view token) const override;
  std::string token(int32_t id) const override;
  const SpecialTokens& special() const override { return special_; }
  std::optional<TextCut> cut() const override { return cut_; }
  std::optional<TextFill> fill() const override { return fill_; }
  const std::string& digest() const override { return digest_; }

 private:
  std::vector<int32_t> plain_ids(std::string_view text) const;
  /// Of a stretch of the user's text without raw added tokens.
  void add_stretch(NormalText text, std::vector<int32_t>& ids) const;
  void add_words(Words words, std::vector<int32_t>& ids) const;

  std::unique_ptr<TokenModel> model_;
  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  AddedTokens added_;
  PostProcessor post_processor_;
  std::unique_ptr<TokenDecoder> decoder_;
  std::optional<TextCut> cut_;
  std::optional<TextFill> fill_;
  SpecialTokens special_;
  std::string digest_;
};

}  // namespace accel
