// The vocabulary of a tokenizer as llama.cpp has it, of one of its kinds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/gguf_pieces.h"
#include "text/json_node.h"
#include "text/pre_tokenizer.h"

namespace accel {

struct SentencePieceFile;

/// SentencePiece's BPE, whose scores are the order of merges, and its Unigram, whose scores are
/// probabilities.
enum class GgufTokenizerKind { kByteLevel, kSentencePiece, kUnigram };

inline constexpr float kGgufUnusedScore = -1e9F;  ///< of tokens that llama.cpp must not choose

struct GgufVocabulary {
  GgufTokenizerKind kind = GgufTokenizerKind::kByteLevel;
  std::vector<GgufPiece> pieces = {};
  std::vector<std::string> merges = {};  ///< of byte-level BPE
  std::vector<float> scores = {};        ///< of the others
  std::string split = {};                ///< of byte-level BPE
  bool add_space_prefix = false;
  bool remove_extra_whitespaces = false;  ///< of Unigram
  std::string character_map = {};         ///< of Unigram; "": none
  std::optional<int32_t> unknown = {};    ///< of Unigram
  std::vector<std::string> notes = {};    ///< texts for which llama.cpp makes other tokens
};

/// The steps of a normalizer or pre_tokenizer in order, those of sequences, whose member `list`
/// they are, included; none of null.
std::vector<JsonNode> gguf_steps(const JsonNode& node, const char* list);

/// Of a Metaspace, whether a text begins with a space that it does not have; adds the notes about
/// it. Throws FormatError with the reason for another mark.
bool gguf_space_prefix(const MetaspaceOptions& options, std::vector<std::string>& notes);

/// Throws FormatError where a token crosses a space.
void check_words_in_pieces(const std::vector<GgufPiece>& pieces);

/// Of a tokenizer.json whose model is Unigram. Throws FormatError with the reason where llama.cpp
/// would make other tokens of most texts.
GgufVocabulary unigram_vocabulary(const JsonNode& file);

/// The same of a .model file of Unigram.
GgufVocabulary unigram_vocabulary(const SentencePieceFile& file);

}  // namespace accel
