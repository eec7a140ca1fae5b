// Tokenizer: encodes texts into ids and decodes ids into texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

/// Two texts in one sequence; both lists have the same length.
struct TokenPair {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;  ///< token_type_ids: usually 0 in the first text and 1 in the second
};

/// Bytes [begin, end) of a text.
struct TokenSpan {
  size_t begin = 0;
  size_t end = 0;
};

/// The tokens of a text with their positions; both lists have the same length.
struct SpannedTokens {
  std::vector<int32_t> ids;
  std::vector<TokenSpan> spans;
};

/// Ids of the special tokens; none for a token that the tokenizer lacks.
struct SpecialTokens {
  std::optional<int32_t> pad;
  std::optional<int32_t> bos;
  std::optional<int32_t> eos;
  std::optional<int32_t> unk;
  std::optional<int32_t> mask;
  std::optional<int32_t> cls;
  std::optional<int32_t> sep;
};

/// Which text of a pair is truncated.
enum class TruncationStrategy { kLongestFirst, kOnlyFirst, kOnlySecond };

/// Truncation of long texts.
struct TruncationConfig {
  int64_t max_length = 0;  ///< in tokens, special tokens included
  TruncationStrategy strategy = TruncationStrategy::kLongestFirst;
  bool from_left = false;  ///< drops the first tokens rather than the last

  bool operator==(const TruncationConfig&) const = default;
};

/// Padding of the sequences of a batch.
struct PaddingConfig {
  std::optional<int64_t> fixed = {};  ///< length; none: of the longest sequence
  int64_t multiple = 1;               ///< pad_to_multiple_of
  bool on_left = false;
  int32_t id = 0;
  std::string token = {};
};

/// Immutable after loading, and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Ids of a text. `with_special` applies the post-processor, which adds [CLS] and [SEP] for
  /// instance. Invalid UTF-8 is read as U+FFFD. Throws DataError for an unknown word without an
  /// unknown token, and when a pattern exceeds its match limit.
  virtual std::vector<int32_t> encode(std::string_view text, bool with_special = true) const = 0;

  /// encode() of valid UTF-8 without special tokens, and the position of each token:
  /// align_tokens().
  virtual SpannedTokens encode_spans(std::string_view text) const;

  /// Two texts in one sequence, post-processed. Throws as encode() does.
  virtual TokenPair encode_pair(std::string_view first, std::string_view second) const = 0;

  /// The text of the ids; ids without a token are skipped, and with `skip_special` special tokens
  /// too.
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special = true) const = 0;

  /// The largest id plus one, added tokens included: the minimum size of an embedding.
  virtual int64_t vocab_size() const = 0;

  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;

  /// The token as spelled in the file; empty for an id without a token.
  virtual std::string token(int32_t id) const = 0;

  virtual const SpecialTokens& special() const = 0;

  /// The file's defaults for batches. encode() does not apply them: a recipe may override them.
  virtual std::optional<TruncationConfig> truncation() const { return std::nullopt; }
  virtual std::optional<PaddingConfig> padding() const { return std::nullopt; }

  /// Checksum of the files, 16 hex digits: equal digests give equal ids.
  virtual const std::string& digest() const = 0;
};

/// Reads a tokenizer.json, the one in a folder or else the vocabulary files of its class
/// (vocab.txt, vocab.json with merges.txt), or a SentencePiece .model file. Special tokens come
/// from special_tokens_map.json and tokenizer_config.json beside it, others from their usual
/// spellings. Throws DataError with the file and the path in it.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path);

}  // namespace accel
