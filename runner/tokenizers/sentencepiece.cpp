// Reading a .model file, the text before it is cut, and the text of ids.
#include "runner/tokenizers/sentencepiece.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "core/utf8.h"
#include "runner/formats/format_error.h"
#include "runner/tokenizers/unicode.h"

namespace accel {
namespace {

constexpr float kUnlikelier = 10.0F;  ///< below the least likely piece
constexpr float kDefinedScore = -0.1F;
constexpr std::string_view kSpaceMark = "\xe2\x96\x81";
constexpr std::string_view kReplacement = "\xef\xbf\xbd";

uint64_t edge(uint32_t node, char c) {
  return static_cast<uint64_t>(node) << 8 | static_cast<unsigned char>(c);
}

size_t piece_bytes(const SentencePieceFile& file) {
  size_t sum = 0;
  for (const SentencePieceFile::Piece& piece : file.pieces) sum += piece.text.size();
  return sum;
}

/// How texts hold pieces of the kind, rather than standing for something else.
bool is_in_texts(SentencePieceFile::Kind kind) {
  using Kind = SentencePieceFile::Kind;
  return kind == Kind::kNormal || kind == Kind::kUserDefined || kind == Kind::kUnused;
}

std::string byte_piece(size_t byte) {
  char text[8];
  std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(byte));
  return text;
}

void check_supported(const SentencePieceFile& file) {
  if (file.model != SentencePieceFile::Model::kUnigram &&
      file.model != SentencePieceFile::Model::kBpe) {
    throw FormatError("its model is one of words or characters, which is not supported");
  }
  if (file.changes_decoded) throw FormatError("it changes decoded text, which is not supported");
}

/// Bytes as text, each that is no UTF-8 as U+FFFD.
void add_byte_text(std::string& bytes, std::string& text) {
  for (std::string_view left = bytes; !left.empty();) {
    size_t length = 1;
    while (length < std::min<size_t>(left.size(), 4) && !is_utf8(left.substr(0, length))) ++length;
    const bool valid = is_utf8(left.substr(0, length));
    text += valid ? left.substr(0, length) : kReplacement;
    left.remove_prefix(valid ? length : 1);
  }
  bytes.clear();
}

}  // namespace

SentencePiece::SentencePiece(std::string_view bytes)
    : file_(read_sentencepiece_file(bytes)), edges_(piece_bytes(file_)) {
  check_supported(file_);
  if (!file_.character_map.empty()) map_ = CharacterMap(file_.character_map);
  float least = std::numeric_limits<float>::max();
  ids_.reserve(file_.pieces.size());
  for (size_t i = 0; i < file_.pieces.size(); ++i) {
    const SentencePieceFile::Piece& piece = file_.pieces[i];
    const auto id = static_cast<int32_t>(i);
    ids_.emplace(piece.text, id);
    if (piece.kind == Kind::kNormal) least = std::min(least, piece.score);
    if (piece.kind == Kind::kUnknown) unknown_ = id;
    any_defined_ = any_defined_ || piece.kind == Kind::kUserDefined;
    if (is_in_texts(piece.kind)) add_to_trie(id);
  }
  unknown_score_ = least - kUnlikelier;
  for (size_t byte = 0; file_.byte_fallback && byte < bytes_.size(); ++byte) {
    const auto found = ids_.find(byte_piece(byte));
    if (found == ids_.end() || kind_of(found->second) != Kind::kByte) {
      throw FormatError("it lacks the piece for a byte '" + byte_piece(byte) + "'");
    }
    bytes_[byte] = found->second;
  }
}

void SentencePiece::describe(SpecialTokens special, std::string digest) {
  special_ = special;
  digest_ = std::move(digest);
}

void SentencePiece::add_to_trie(int32_t id) {
  uint32_t node = 0;
  for (const char c : file_.pieces[static_cast<size_t>(id)].text) {
    if (const uint32_t* next = edges_.find(edge(node, c))) {
      node = *next;
      continue;
    }
    const auto added = static_cast<uint32_t>(trie_.size());
    edges_.insert(edge(node, c), added);
    trie_.push_back(-1);
    node = added;
  }
  trie_[node] = id;
}

template <class Use>
void SentencePiece::each_piece(std::string_view text, const Use& use) const {
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const uint32_t* next = edges_.find(edge(node, text[i]));
    if (!next) return;
    node = *next;
    if (trie_[node] >= 0) use(i + 1, trie_[node]);
  }
}

SentencePiece::Match SentencePiece::defined_at(std::string_view text) const {
  Match longest;
  if (!any_defined_) return longest;
  each_piece(text, [&](size_t length, int32_t id) {
    if (kind_of(id) == Kind::kUserDefined) longest = {length, id};
  });
  return longest;
}

/// What the beginning of valid UTF-8 becomes, and how many bytes that is for.
std::pair<std::string_view, size_t> SentencePiece::next_normal(std::string_view text) const {
  if (const Match own = defined_at(text); own.length > 0) {
    return {text.substr(0, own.length), own.length};
  }
  if (const auto replaced = map_.longest(text)) return {replaced->replacement, replaced->length};
  const size_t length = character_at(text, 0).bytes;
  return {text.substr(0, length), length};
}

std::string SentencePiece::normalized(std::string_view text) const {
  const std::string_view space = file_.marks_spaces ? kSpaceMark : " ";
  while (file_.removes_spaces && !text.empty()) {
    const auto [normal, length] = next_normal(text);
    if (normal != " ") break;
    text.remove_prefix(length);
  }
  std::string out;
  if (text.empty()) return out;
  if (file_.begins_with_space && !file_.space_behind) out += space;
  bool behind_space = file_.removes_spaces;
  while (!text.empty()) {
    auto [normal, length] = next_normal(text);
    while (behind_space && normal.starts_with(' ')) normal.remove_prefix(1);
    for (const char c : normal) {
      c == ' ' && file_.marks_spaces ? out += kSpaceMark : out += c;
    }
    if (!normal.empty()) behind_space = normal.ends_with(' ');
    if (!file_.removes_spaces) behind_space = false;
    text.remove_prefix(length);
  }
  while (file_.removes_spaces && out.ends_with(space)) out.erase(out.size() - space.size());
  if (file_.begins_with_space && file_.space_behind) out += space;
  return out;
}

std::vector<SentencePiece::Segment> SentencePiece::unigram_segments(std::string_view text) const {
  /// The best way to cut the text up to here.
  struct Best {
    int32_t id = -1;
    float score = 0;
    size_t begins = 0;
    bool reached = false;
  };
  std::vector<Best> ends(text.size() + 1);
  const auto offer = [](Best& to, float score, int32_t id, size_t begins) {
    if (!to.reached || score > to.score) to = {id, score, begins, true};
  };
  for (size_t at = 0; at < text.size();) {
    const float before = ends[at].score;
    const size_t character = character_at(text, at).bytes;
    bool alone = false;
    each_piece(text.substr(at), [&](size_t length, int32_t id) {
      if (kind_of(id) == Kind::kUnused) return;
      // A piece that its user defined is always taken: all others are less likely.
      const float score = kind_of(id) == Kind::kUserDefined
                              ? kDefinedScore
                              : file_.pieces[static_cast<size_t>(id)].score;
      offer(ends[at + length], score + before, id, at);
      alone = alone || length == character;
    });
    if (!alone) offer(ends[at + character], unknown_score_ + before, unknown_, at);
    at += character;
  }
  std::vector<Segment> out;
  for (size_t end = text.size(); end > 0; end = ends[end].begins) {
    out.push_back({text.substr(ends[end].begins, end - ends[end].begins), ends[end].id});
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<int32_t> SentencePiece::encode(std::string_view text, bool /*with_special*/) const {
  std::string repaired;
  if (!is_utf8(text)) text = repaired = lossy_utf8(text);
  const std::string normal = normalized(text);
  const bool unigram = file_.model == SentencePieceFile::Model::kUnigram;
  std::vector<int32_t> ids;
  bool behind_unknown = false;
  for (const Segment& segment : unigram ? unigram_segments(normal) : bpe_segments(normal)) {
    const bool unknown = segment.id == unknown_;
    if (unknown && file_.byte_fallback) {
      for (const char c : segment.text) ids.push_back(bytes_[static_cast<unsigned char>(c)]);
    } else if (!unknown || !behind_unknown) {
      ids.push_back(segment.id);
    }
    behind_unknown = unknown;
  }
  return ids;
}

TokenPair SentencePiece::encode_pair(std::string_view first, std::string_view second) const {
  TokenPair out{encode(first, true), {}};
  out.types.assign(out.ids.size(), 0);
  for (const int32_t id : encode(second, true)) out.ids.push_back(id);
  out.types.resize(out.ids.size(), 1);
  return out;
}

std::string SentencePiece::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string text, bytes;
  bool first = true, had_space = false;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) continue;
    std::string_view piece = file_.pieces[static_cast<size_t>(id)].text;
    if (kind_of(id) == Kind::kByte) {
      const size_t byte = std::stoul(std::string(piece.substr(1, piece.size() - 2)), nullptr, 16);
      bytes += static_cast<char>(byte);
      continue;
    }
    add_byte_text(bytes, text);
    if (had_space || !text.empty()) first = false;
    had_space = false;
    if (kind_of(id) == Kind::kControl) {
      if (!skip_special) text += piece;
    } else if (id == unknown_) {
      text += file_.unknown_text;
    } else {
      if (first && (file_.begins_with_space || file_.removes_spaces) &&
          piece.starts_with(kSpaceMark)) {
        piece.remove_prefix(kSpaceMark.size());
        had_space = !file_.removes_spaces;
      }
      for (size_t at = 0; at < piece.size();) {
        const bool mark = piece.substr(at).starts_with(kSpaceMark);
        mark ? text += ' ' : text += piece[at];
        at += mark ? kSpaceMark.size() : 1;
      }
    }
  }
  add_byte_text(bytes, text);
  return text;
}

std::optional<int32_t> SentencePiece::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::string SentencePiece::token(int32_t id) const {
  return id < 0 || id >= vocab_size() ? "" : file_.pieces[static_cast<size_t>(id)].text;
}

}  // namespace accel
