// Byte pair encoding as SentencePiece does it: any two neighbours that make a piece may become it,
// those of the highest score first.
#include <queue>

#include "runner/tokenizers/sentencepiece.h"
#include "runner/tokenizers/unicode.h"

namespace accel {
namespace {

constexpr size_t kNobody = ~size_t{0};

struct Symbol {
  size_t before = kNobody;
  size_t next = kNobody;
  bool frozen = false;
  std::string_view text;
};

/// Two neighbours that make a piece.
struct Neighbours {
  size_t left;
  size_t right;
  float score;
  size_t bytes;

  /// Whether the other one comes first: by score, and of equal ones the leftmost.
  bool operator<(const Neighbours& other) const {
    return score < other.score || (score == other.score && left > other.left);
  }
};

}  // namespace

/// A piece that is not to be used is cut where it was put together.
void SentencePiece::add_unsplit(std::string_view text,
                                const std::unordered_map<std::string_view, size_t>& cuts,
                                std::vector<Segment>& out) const {
  std::vector<std::string_view> left = {text};
  while (!left.empty()) {
    const std::string_view part = left.back();
    left.pop_back();
    const auto found = ids_.find(part);
    const int32_t id = found == ids_.end() ? unknown_ : found->second;
    const auto cut = cuts.find(part);
    if (kind_of(id) != Kind::kUnused || cut == cuts.end()) {
      out.push_back({part, id});
      continue;
    }
    left.push_back(part.substr(cut->second));
    left.push_back(part.substr(0, cut->second));
  }
}

std::vector<SentencePiece::Segment> SentencePiece::bpe_segments(std::string_view text) const {
  std::vector<Symbol> symbols;
  for (size_t at = 0; at < text.size();) {
    const Match own = defined_at(text.substr(at));
    const size_t length = own.length > 0 ? own.length : character_at(text, at).bytes;
    symbols.push_back({symbols.empty() ? kNobody : symbols.size() - 1, symbols.size() + 1,
                       own.length > 0, text.substr(at, length)});
    at += length;
  }
  if (symbols.empty()) return {};
  symbols.back().next = kNobody;

  std::priority_queue<Neighbours> waiting;
  std::unordered_map<std::string_view, size_t> cuts;  // where unused pieces were put together
  const auto consider = [&](size_t left, size_t right) {
    if (left == kNobody || right == kNobody || symbols[left].frozen || symbols[right].frozen)
      return;
    const std::string_view all(symbols[left].text.data(),
                               symbols[left].text.size() + symbols[right].text.size());
    const auto found = ids_.find(all);
    if (found == ids_.end()) return;
    const Kind kind = kind_of(found->second);
    if (kind == Kind::kControl || kind == Kind::kUnknown || kind == Kind::kByte) return;
    waiting.push({left, right, file_.pieces[static_cast<size_t>(found->second)].score, all.size()});
    if (kind == Kind::kUnused) cuts[all] = symbols[left].text.size();
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
    if (right.next != kNobody) symbols[right.next].before = pair.left;
    right.text = {};
    consider(left.before, pair.left);
    consider(pair.left, left.next);
  }
  std::vector<Segment> out;
  for (size_t i = 0; i != kNobody; i = symbols[i].next) add_unsplit(symbols[i].text, cuts, out);
  return out;
}

}  // namespace accel
