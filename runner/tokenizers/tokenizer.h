// Texts as ids and back, as a tokenizer.json declares it.
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

/// Two texts in one sequence. Both lists are of one length.
struct TokenPair {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;  ///< as a rule 0 in the first text and 1 in the second
};

/// Ids of tokens with a task of their own; nothing where the tokenizer has none.
struct SpecialTokens {
  std::optional<int32_t> pad;
  std::optional<int32_t> bos;
  std::optional<int32_t> eos;
  std::optional<int32_t> unk;
  std::optional<int32_t> mask;
  std::optional<int32_t> cls;
  std::optional<int32_t> sep;
};

/// Which of two texts loses tokens when both are too long.
enum class CutShare { kLongestFirst, kOnlyFirst, kOnlySecond };

/// How texts that are too long are cut.
struct TextCut {
  int64_t max_length = 0;  ///< tokens, special ones included
  CutShare share = CutShare::kLongestFirst;
  bool from_left = false;  ///< a text loses its first tokens rather than its last

  bool operator==(const TextCut&) const = default;
};

/// How the sequences of a batch come to one length.
struct TextFill {
  std::optional<int64_t> fixed = {};  ///< that length; none: the longest sequence's
  int64_t multiple = 1;               ///< the length is rounded up to one of this
  bool on_left = false;
  int32_t id = 0;
  std::string token = {};
};

/// Nothing of it changes once it is loaded: several threads may use one at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Ids of a text. `with_special` adds what the post-processor does, such as [CLS] and [SEP].
  /// Bytes that are no UTF-8 count as U+FFFD. Throws DataError when a token for what is unknown is
  /// needed and there is none, and when a pattern gives up on the text.
  virtual std::vector<int32_t> encode(std::string_view text, bool with_special = true) const = 0;

  /// Two texts in one sequence, with all that the post-processor adds. Throws as encode() does.
  virtual TokenPair encode_pair(std::string_view first, std::string_view second) const = 0;

  /// The text of the ids; those that belong to no token give none. `skip_special` leaves out the
  /// tokens marked as special.
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special = true) const = 0;

  /// The largest id and one, added tokens included: what an embedding must hold.
  virtual int64_t vocab_size() const = 0;

  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;

  /// The token as the file spells it; empty when the id belongs to none.
  virtual std::string token(int32_t id) const = 0;

  virtual const SpecialTokens& special() const = 0;

  /// What the file asks for, which encode() does not do: the recipe may say otherwise.
  virtual std::optional<TextCut> cut() const { return std::nullopt; }
  virtual std::optional<TextFill> fill() const { return std::nullopt; }

  /// 16 hex digits that change when the files do, and so whenever the ids of some text could.
  virtual const std::string& digest() const = 0;
};

/// Reads a tokenizer.json, or the one in a folder, or a .model file of SentencePiece's. Which
/// tokens are special is read from special_tokens_map.json and tokenizer_config.json beside it,
/// where they are there, and elsewhere known by their usual spellings. Throws DataError that names
/// the file and, for what is wrong or not supported, the place in it.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path);

}  // namespace accel
