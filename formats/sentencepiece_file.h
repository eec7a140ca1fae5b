// SentencePiece .model files: the fields of the protocol buffer that encoding and decoding need.
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

  std::vector<Piece> pieces;  ///< by id; texts are distinct and not empty
  Model model = Model::kUnigram;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;           ///< words end with their space
  std::string unk_surface = " \xe2\x81\x87 ";  ///< decoded text of the unknown piece
  std::string character_map;                   ///< precompiled_charsmap; "": none
  bool add_dummy_prefix = true;                ///< prepends a space to a text
  bool remove_extra_whitespaces = true;        ///< also at both ends
  bool escape_whitespaces = true;              ///< as U+2581
  bool has_denormalizer = false;
};

/// Throws FormatError for damaged and other files, for a model without an unknown piece, and for
/// byte fallback without all 256 byte pieces.
SentencePieceFile read_sentencepiece_file(std::string_view bytes);

}  // namespace accel
