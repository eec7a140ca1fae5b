// Tokenizer of a SentencePiece .model file.
#pragma once

#include <array>
#include <unordered_map>

#include "formats/sentencepiece_file.h"
#include "text/character_map.h"
#include "text/flat_map.h"
#include "text/tokenizer.h"

namespace accel {

/// Encodes and decodes exactly as SentencePiece does; adds no special tokens.
class SentencePiece final : public Tokenizer {
 public:
  /// Throws FormatError for a damaged or unsupported model.
  explicit SentencePiece(std::string_view bytes);
  SentencePiece(const SentencePiece&) = delete;  // ids_ refers to the pieces' texts
  SentencePiece& operator=(const SentencePiece&) = delete;
  /// Set after construction: the tokens' ids come from the tokenizer itself.
  void set_special_tokens(SpecialTokens special, std::string digest);

  std::vector<int32_t> encode(std::string_view text, bool with_special) const override;
  /// Concatenated, without a separator.
  TokenPair encode_pair(std::string_view first, std::string_view second) const override;
  std::string decode(std::span<const int32_t> ids, bool skip_special) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(file_.pieces.size()); }
  std::optional<int32_t> id_of(std::string_view token) const override;
  std::string token(int32_t id) const override;
  const SpecialTokens& special() const override { return special_; }
  const std::string& digest() const override { return digest_; }

 private:
  using Kind = SentencePieceFile::Kind;

  struct Segment {
    std::string_view text;
    int32_t id;
  };
  struct Match {
    size_t length = 0;  ///< of the longest match; 0: none
    int32_t id = -1;
  };

  void add_to_trie(int32_t id);
  Kind kind_of(int32_t id) const { return file_.pieces[static_cast<size_t>(id)].kind; }
  /// Calls `use` with the length and the id of each piece at the start of `text`, the shortest
  /// first.
  template <class Use>
  void each_piece(std::string_view text, const Use& use) const;
  /// The longest user-defined piece at the start of `text`.
  Match user_defined_at(std::string_view text) const;

  std::string normalized(std::string_view text) const;
  std::pair<std::string_view, size_t> next_normal(std::string_view text) const;
  std::vector<Segment> unigram_segments(std::string_view text) const;
  std::vector<Segment> bpe_segments(std::string_view text) const;
  void add_unsplit(std::string_view text,
                   const std::unordered_map<std::string_view, size_t>& splits,
                   std::vector<Segment>& out) const;

  SentencePieceFile file_;
  CharacterMap map_;
  std::unordered_map<std::string_view, int32_t> ids_;  ///< of all pieces; keys refer to their texts
  FlatMap<uint32_t> edges_;           ///< of the trie of pieces that occur in texts
  std::vector<int32_t> trie_ = {-1};  ///< by node: its piece, or -1
  std::array<int32_t, 256> bytes_ = {};
  int32_t unknown_ = 0;
  bool has_user_defined_ = false;
  float unknown_score_ = 0;
  SpecialTokens special_;
  std::string digest_;
};

}  // namespace accel
