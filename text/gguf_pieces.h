// Tokens of a tokenizer as llama.cpp stores them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/json_node.h"

namespace accel {

/// With llama.cpp's numbers, which are SentencePiece's.
enum class GgufTokenType : int32_t {
  kNormal = 1,
  kUnknown,
  kControl,
  kUserDefined,
  kUnused,
  kByte
};

struct GgufPiece {
  std::string text;
  GgufTokenType type = GgufTokenType::kUnused;
};

/// The tokens of a tokenizer.json by id, added ones included; ids without a token are unused.
/// Throws FormatError with the path in the file.
std::vector<GgufPiece> gguf_pieces(const JsonNode& file);

/// Sets the added tokens of a tokenizer.json: special ones are control tokens, but an unknown one
/// stays what it is; others are user-defined. Throws FormatError with the path in the file.
void add_added_pieces(const JsonNode& file, std::vector<GgufPiece>& pieces);

/// A merge of two tokens into one.
struct GgufMerge {
  std::string left, right;
};

std::vector<GgufMerge> gguf_merges(const JsonNode& model);

/// Scores by which llama.cpp's SentencePiece merges as the rules do: it joins any two neighbours
/// whose joined text is a token, that of the highest score first. Throws FormatError with the
/// reason where no scores do that: rules that lack a pair, or join one token early and late.
std::vector<float> gguf_scores(const std::vector<GgufPiece>& pieces,
                               const std::vector<GgufMerge>& merges);

}  // namespace accel
