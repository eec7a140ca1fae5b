// SentencePiece's .model files: a protocol buffer of which what encoding and decoding take is read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

struct SentencePieceFile {
  enum class Kind { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
  enum class Model { kUnigram = 1, kBpe, kWord, kChar };

  struct Piece {
    std::string text;
    float score = 0;
    Kind kind = Kind::kNormal;
  };

  std::vector<Piece> pieces;  ///< by id; all texts differ, and none is empty
  Model model = Model::kUnigram;
  bool byte_fallback = false;
  bool space_behind = false;                    ///< words carry the space behind them
  std::string unknown_text = " \xe2\x81\x87 ";  ///< of the unknown piece, decoded
  std::string character_map;                    ///< "": nothing is replaced
  bool begins_with_space = true;                ///< a space is put before a text
  bool removes_spaces = true;                   ///< around a text, and all but one within
  bool marks_spaces = true;                     ///< by U+2581
  bool changes_decoded = false;                 ///< decoded text is replaced too
};

/// Throws FormatError for what is damaged, is no such file, or could not encode: without a piece
/// for the unknown, or with a byte fallback and not all 256 bytes.
SentencePieceFile read_sentencepiece_file(std::string_view bytes);

}  // namespace accel
