#include "text/sentencepiece.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <queue>

#include "core/base/format_error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "text/unicode.h"

namespace accel {
namespace {

constexpr float kUnknownPiecePenalty = 10.0F;  ///< below the least likely piece
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

/// Whether pieces of the kind occur in texts as they are spelled.
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
    throw FormatError("its model type is word or char, which is not supported");
  }
  if (file.has_denormalizer) throw FormatError("it has a denormalizer, which is not supported");
}

/// Moves `bytes` to `text`, each invalid byte as U+FFFD.
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
    has_user_defined_ = has_user_defined_ || piece.kind == Kind::kUserDefined;
    if (is_in_texts(piece.kind)) add_to_trie(id);
  }
  unknown_score_ = least - kUnknownPiecePenalty;
  for (size_t byte = 0; file_.byte_fallback && byte < bytes_.size(); ++byte) {
    const auto found = ids_.find(byte_piece(byte));
    if (found == ids_.end() || kind_of(found->second) != Kind::kByte) {
      throw FormatError(text("it has no byte piece '{}'", byte_piece(byte)));
    }
    bytes_[byte] = found->second;
  }
}

void SentencePiece::set_special_tokens(SpecialTokens special, std::string digest) {
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

SentencePiece::Match SentencePiece::user_defined_at(std::string_view text) const {
  Match longest;
  if (!has_user_defined_) return longest;
  each_piece(text, [&](size_t length, int32_t id) {
    if (kind_of(id) == Kind::kUserDefined) longest = {length, id};
  });
  return longest;
}

/// The normalized form of the first characters of valid UTF-8, and their length.
std::pair<std::string_view, size_t> SentencePiece::next_normal(std::string_view text) const {
  if (const Match own = user_defined_at(text); own.length > 0) {
    return {text.substr(0, own.length), own.length};
  }
  if (const auto replaced = map_.longest(text)) return {replaced->replacement, replaced->length};
  const size_t length = character_at(text, 0).bytes;
  return {text.substr(0, length), length};
}

std::string SentencePiece::normalized(std::string_view text) const {
  const std::string_view space = file_.escape_whitespaces ? kSpaceMark : " ";
  while (file_.remove_extra_whitespaces && !text.empty()) {
    const auto [normal, length] = next_normal(text);
    if (normal != " ") break;
    text.remove_prefix(length);
  }
  std::string out;
  if (text.empty()) return out;
  if (file_.add_dummy_prefix && !file_.whitespace_as_suffix) out += space;
  bool after_space = file_.remove_extra_whitespaces;
  while (!text.empty()) {
    auto [normal, length] = next_normal(text);
    while (after_space && normal.starts_with(' ')) normal.remove_prefix(1);
    for (const char c : normal) {
      c == ' ' && file_.escape_whitespaces ? out += kSpaceMark : out += c;
    }
    if (!normal.empty()) after_space = normal.ends_with(' ');
    if (!file_.remove_extra_whitespaces) after_space = false;
    text.remove_prefix(length);
  }
  while (file_.remove_extra_whitespaces && out.ends_with(space))
    out.erase(out.size() - space.size());
  if (file_.add_dummy_prefix && file_.whitespace_as_suffix) out += space;
  return out;
}

std::vector<SentencePiece::Segment> SentencePiece::unigram_segments(std::string_view text) const {
  /// The best segmentation of the text up to here.
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
      // User-defined pieces always win: their score is above all others.
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
  bool after_unknown = false;
  for (const Segment& segment : unigram ? unigram_segments(normal) : bpe_segments(normal)) {
    const bool unknown = segment.id == unknown_;
    if (unknown && file_.byte_fallback) {
      for (const char c : segment.text) ids.push_back(bytes_[static_cast<unsigned char>(c)]);
    } else if (!unknown || !after_unknown) {
      ids.push_back(segment.id);
    }
    after_unknown = unknown;
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
      text += file_.unk_surface;
    } else {
      if (first && (file_.add_dummy_prefix || file_.remove_extra_whitespaces) &&
          piece.starts_with(kSpaceMark)) {
        piece.remove_prefix(kSpaceMark.size());
        had_space = !file_.remove_extra_whitespaces;
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

namespace {

constexpr size_t kNone = ~size_t{0};

struct Symbol {
  size_t before = kNone;
  size_t next = kNone;
  bool frozen = false;
  std::string_view text;
};

/// Two neighbours that form a piece.
struct Neighbours {
  size_t left;
  size_t right;
  float score;
  size_t bytes;

  /// Whether `other` is merged first: by score, then leftmost.
  bool operator<(const Neighbours& other) const {
    return score < other.score || (score == other.score && left > other.left);
  }
};

}  // namespace

/// Splits unused pieces where they were merged.
void SentencePiece::add_unsplit(std::string_view text,
                                const std::unordered_map<std::string_view, size_t>& splits,
                                std::vector<Segment>& out) const {
  std::vector<std::string_view> left = {text};
  while (!left.empty()) {
    const std::string_view piece = left.back();
    left.pop_back();
    const auto found = ids_.find(piece);
    const int32_t id = found == ids_.end() ? unknown_ : found->second;
    const auto split = splits.find(piece);
    if (kind_of(id) != Kind::kUnused || split == splits.end()) {
      out.push_back({piece, id});
      continue;
    }
    left.push_back(piece.substr(split->second));
    left.push_back(piece.substr(0, split->second));
  }
}

std::vector<SentencePiece::Segment> SentencePiece::bpe_segments(std::string_view text) const {
  std::vector<Symbol> symbols;
  for (size_t at = 0; at < text.size();) {
    const Match defined = user_defined_at(text.substr(at));
    const size_t length = defined.length > 0 ? defined.length : character_at(text, at).bytes;
    symbols.push_back({symbols.empty() ? kNone : symbols.size() - 1, symbols.size() + 1,
                       defined.length > 0, text.substr(at, length)});
    at += length;
  }
  if (symbols.empty()) return {};
  symbols.back().next = kNone;

  std::priority_queue<Neighbours> waiting;
  std::unordered_map<std::string_view, size_t> splits;  // merge positions of unused pieces
  const auto consider = [&](size_t left, size_t right) {
    if (left == kNone || right == kNone || symbols[left].frozen || symbols[right].frozen) return;
    const std::string_view all(symbols[left].text.data(),
                               symbols[left].text.size() + symbols[right].text.size());
    const auto found = ids_.find(all);
    if (found == ids_.end()) return;
    const Kind kind = kind_of(found->second);
    if (kind == Kind::kControl || kind == Kind::kUnknown || kind == Kind::kByte) return;
    waiting.push({left, right, file_.pieces[static_cast<size_t>(found->second)].score, all.size()});
    if (kind == Kind::kUnused) splits[all] = symbols[left].text.size();
  };
  for (size_t i = 1; i < symbols.size(); ++i) consider(i - 1, i);
  while (!waiting.empty()) {
    const Neighbours pair = waiting.top();
    waiting.pop();
    Symbol &left = symbols[pair.left], &right = symbols[pair.right];
    const bool gone = left.text.empty() || right.text.empty();
    if (gone || left.text.size() + right.text.size() != pair.bytes) continue;
    left.text = {left.text.data(), pair.bytes};
    left.next = right.next;
    if (right.next != kNone) symbols[right.next].before = pair.left;
    right.text = {};
    consider(left.before, pair.left);
    consider(pair.left, left.next);
  }
  std::vector<Segment> out;
  for (size_t i = 0; i != kNone; i = symbols[i].next) add_unsplit(symbols[i].text, splits, out);
  return out;
}

}  // namespace accel
