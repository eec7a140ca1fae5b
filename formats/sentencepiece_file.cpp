#include "formats/sentencepiece_file.h"

#include <bit>
#include <functional>
#include <set>

#include "core/base/bytes.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "formats/protobuf.h"

namespace accel {
namespace {

using Piece = SentencePieceFile::Piece;
using PieceKind = SentencePieceFile::Kind;

std::string proto_text(const ProtoField& field) {
  if (!is_utf8(field.bytes)) throw FormatError("a string is not UTF-8");
  return std::string(field.bytes);
}

Piece read_piece(std::string_view message) {
  Piece out;
  each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) out.text = proto_text(field);
    if (field.number == 2) out.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    if (field.number != 3) return;
    if (field.value < 1 || field.value > 6) throw FormatError("a piece has an unknown type");
    out.kind = static_cast<PieceKind>(field.value);
  });
  return out;
}

void read_trainer(std::string_view message, SentencePieceFile& out) {
  each_field(message, [&](const ProtoField& field) {
    if (field.number == 3) {
      if (field.value < 1 || field.value > 4) throw FormatError("the model type is unknown");
      out.model = static_cast<SentencePieceFile::Model>(field.value);
    }
    if (field.number == 24) out.whitespace_as_suffix = field.value != 0;
    if (field.number == 35) out.byte_fallback = field.value != 0;
    if (field.number == 44) out.unk_surface = proto_text(field);
  });
}

void read_normalizer(std::string_view message, SentencePieceFile& out) {
  each_field(message, [&](const ProtoField& field) {
    if (field.number == 2) out.character_map = field.bytes;
    if (field.number == 3) out.add_dummy_prefix = field.value != 0;
    if (field.number == 4) out.remove_extra_whitespaces = field.value != 0;
    if (field.number == 5) out.escape_whitespaces = field.value != 0;
  });
}

void read_denormalizer(std::string_view message, SentencePieceFile& out) {
  each_field(message, [&](const ProtoField& field) {
    if (field.number == 2) out.has_denormalizer = !field.bytes.empty();
  });
}

void check_pieces(const SentencePieceFile& file) {
  std::set<std::string_view> texts;
  int64_t unknown = 0, bytes = 0;
  for (const Piece& piece : file.pieces) {
    if (piece.text.empty()) throw FormatError("a piece is empty");
    if (!texts.insert(piece.text).second) {
      throw FormatError(text("the piece '{}' appears twice", printable(piece.text)));
    }
    if (!(piece.score > -1e30F && piece.score < 1e30F)) {
      throw FormatError(text("the score of the piece '{}' is not finite", printable(piece.text)));
    }
    unknown += piece.kind == PieceKind::kUnknown ? 1 : 0;
    bytes += piece.kind == PieceKind::kByte ? 1 : 0;
  }
  if (unknown != 1) {
    throw FormatError(text("it has {} unknown pieces, 1 wanted", unknown));
  }
  if (file.byte_fallback && bytes != 256) {
    throw FormatError(text("it has {} byte pieces, 256 wanted", bytes));
  }
}

}  // namespace

SentencePieceFile read_sentencepiece_file(std::string_view bytes) {
  SentencePieceFile out;
  each_field(bytes, [&](const ProtoField& field) {
    if (field.number == 1 && field.has_bytes) out.pieces.push_back(read_piece(field.bytes));
    if (field.number == 2) read_trainer(field.bytes, out);
    if (field.number == 3) read_normalizer(field.bytes, out);
    if (field.number == 5) read_denormalizer(field.bytes, out);
  });
  if (out.pieces.empty()) throw FormatError("it has no pieces");
  check_pieces(out);
  return out;
}

}  // namespace accel
