// Tokenizers of tokenizer.json files: the pipeline, its post-processor and its decoder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/format_error.h"
#include "text/added_tokens.h"
#include "text/json_node.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/token_model.h"
#include "text/token_spans.h"
#include "text/tokenizer.h"

namespace accel {

/// A piece of a sequence: the ids of a text, or fixed ids.
struct SequencePiece {
  enum class From { kFirst, kSecond, kFixed };
  From source = From::kFirst;
  int32_t type = 0;
  std::vector<int32_t> ids;  ///< of kFixed
};

/// Builds the sequence of one text or of a pair.
class PostProcessor {
 public:
  /// Adds nothing.
  PostProcessor();
  /// The object 'post_processor', or a null. Throws FormatError with the path in the file.
  static PostProcessor read(const JsonNode& node);

  std::vector<int32_t> single(std::vector<int32_t> ids) const;
  TokenPair pair(const std::vector<int32_t>& first, const std::vector<int32_t>& second) const;

 private:
  void read_template(const JsonNode& node);
  void read_cls_sep(const JsonNode& node, bool roberta);
  void read_sequence(const JsonNode& node);

  std::vector<SequencePiece> single_;
  std::vector<SequencePiece> pair_;
};

/// Immutable and thread-safe.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  /// Rewrites the tokens, which are then concatenated. Throws FormatError when a step makes more
  /// than `limit` bytes of them.
  virtual void apply(std::vector<std::string>& tokens, size_t limit) const = 0;
};

/// Reads the object 'decoder'; a null gives none. Throws FormatError with the path in the file.
std::unique_ptr<TokenDecoder> read_decoder(const JsonNode& node);

/// What files beside a tokenizer.json say of texts.
struct PipelineOptions {
  bool split_special_tokens = false;  ///< special tokens in a text are text
  bool clean_up_spaces = false;       ///< decoded texts lose spaces before punctuation
};

class Pipeline final : public Tokenizer {
 public:
  /// Reads a whole tokenizer.json. Throws FormatError with the path in the file.
  explicit Pipeline(const JsonNode& file, const PipelineOptions& options = {});

  /// Set after construction: the tokens' ids come from the tokenizer itself.
  void set_special_tokens(SpecialTokens special, std::string digest);

  /// For errors in texts: the file it was read from.
  void set_file(std::string path) { file_ = std::move(path); }

  /// Like decode(), throws DataError when a step of the file makes a text too long.
  std::vector<int32_t> encode(std::string_view text, bool with_special) const override;
  SpannedTokens encode_spans(std::string_view text) const override;
  TokenPair encode_pair(std::string_view first, std::string_view second) const override;
  std::string decode(std::span<const int32_t> ids, bool skip_special) const override;
  int64_t vocab_size() const override;
  std::optional<int32_t> id_of(std::string_view token) const override;
  std::string token(int32_t id) const override;
  const SpecialTokens& special() const override { return special_; }
  std::optional<TruncationConfig> truncation() const override { return truncation_; }
  std::optional<PaddingConfig> padding() const override { return padding_; }
  const std::string& digest() const override { return digest_; }

 private:
  std::vector<int32_t> plain_ids(std::string_view text) const;
  /// Encodes a segment without raw added tokens.
  void add_segment(NormalizedString text, std::vector<int32_t>& ids) const;
  void add_words(Words words, std::vector<int32_t>& ids) const;
  std::vector<int32_t> unchecked_ids(std::string_view text) const;
  /// The ids of valid UTF-8 between two raw added tokens.
  std::vector<int32_t> segment_ids(std::string_view text, const TextSpan& span) const;
  [[noreturn]] void refuse_text(const FormatError& error) const;

  std::unique_ptr<TokenModel> model_;
  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  AddedTokens added_;
  PostProcessor post_processor_;
  std::unique_ptr<TokenDecoder> decoder_;
  std::optional<TruncationConfig> truncation_;
  std::optional<PaddingConfig> padding_;
  TokenSpelling spelling_;
  PipelineOptions options_;
  SpecialTokens special_;
  std::string digest_;
  std::string file_;
};

}  // namespace accel
