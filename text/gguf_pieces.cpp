#include "text/gguf_pieces.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "core/base/format_error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "text/pre_tokenizer.h"
#include "text/token_model.h"

namespace accel {
namespace {

constexpr int64_t kMostIds = 16'000'000;

/// llama.cpp looks for user-defined tokens in the text itself, whose spaces are no marks.
std::string with_spaces(std::string text) {
  const std::string mark = kMetaspaceMark;
  for (size_t at = 0; (at = text.find(mark, at)) != text.npos; ++at) {
    text.replace(at, mark.size(), " ");
  }
  return text;
}

GgufPiece& piece_at(std::vector<GgufPiece>& pieces, int64_t id) {
  const auto at = static_cast<size_t>(id);
  if (at >= pieces.size()) pieces.resize(at + 1);
  return pieces[at];
}

bool is_byte(const std::string& text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with(">");
}

/// The rules that join two tokens into one: their first and last rank, and their number.
struct MergedToken {
  size_t first = 0, last = 0, count = 0;
};

}  // namespace

std::vector<GgufPiece> gguf_pieces(const JsonNode& file) {
  const JsonNode model = file.at("model");
  const JsonNode vocabulary = model.at("vocab");
  const std::string unknown = model.find("unk_token").is_null() ? "" : model.at("unk_token").text();
  const bool has_bytes = model.flag_or("byte_fallback", false);
  std::vector<GgufPiece> out;
  for (const auto& [text, value] : vocabulary.json().items()) {
    const int64_t id = JsonNode(value, vocabulary.path()).integer(0, kMostIds);
    GgufTokenType type = GgufTokenType::kNormal;
    if (has_bytes && is_byte(text)) type = GgufTokenType::kByte;
    if (!unknown.empty() && text == unknown) type = GgufTokenType::kUnknown;
    piece_at(out, id) = {text, type};
  }
  add_added_pieces(file, out);
  return out;
}

void add_added_pieces(const JsonNode& file, std::vector<GgufPiece>& pieces) {
  const JsonNode added = file.find("added_tokens");
  if (added.is_null()) return;
  for (const JsonNode& token : added.items()) {
    GgufPiece& piece = piece_at(pieces, token.at("id").integer(0, kMostIds));
    piece.text = token.at("content").text();
    const bool is_special = token.flag_or("special", false);
    if (is_special && piece.type == GgufTokenType::kUnknown) continue;
    piece.type = is_special ? GgufTokenType::kControl : GgufTokenType::kUserDefined;
    if (!is_special) piece.text = with_spaces(piece.text);
  }
}

std::vector<GgufMerge> gguf_merges(const JsonNode& model) {
  std::vector<GgufMerge> out;
  for (const JsonNode& rule : model.at("merges").items()) {
    if (rule.is_text()) {
      const size_t blank = rule.text().find(' ');
      if (blank == std::string::npos) rule.refuse("must be two tokens");
      out.push_back({rule.text().substr(0, blank), rule.text().substr(blank + 1)});
    } else {
      const std::vector<JsonNode> both = rule.items();
      if (both.size() != 2) rule.refuse("must be two tokens");
      out.push_back({both[0].text(), both[1].text()});
    }
  }
  return out;
}

std::vector<float> gguf_scores(const std::vector<GgufPiece>& pieces,
                               const std::vector<GgufMerge>& merges) {
  std::unordered_map<std::string, MergedToken> merged;
  std::set<std::string> normal;
  for (const GgufPiece& piece : pieces) {
    if (piece.type == GgufTokenType::kNormal) normal.insert(piece.text);
  }
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    MergedToken& token = merged[merges[rank].left + merges[rank].right];
    if (token.count++ == 0) token.first = rank;
    token.last = rank;
  }
  std::vector<float> out;
  size_t missing = 0;
  std::string example;
  for (const GgufPiece& piece : pieces) {
    const auto found = merged.find(piece.text);
    out.push_back(found == merged.end() ? 0 : -static_cast<float>(found->second.first));
    if (piece.type != GgufTokenType::kNormal) continue;
    const size_t rules = found == merged.end() ? 0 : found->second.count;
    if (rules > 0 && found->second.last - found->second.first + 1 != rules) {
      throw FormatError(
          text("its rules join '{}' early and late, and llama.cpp ranks tokens, not "
               "rules",
               printable(piece.text)));
    }
    size_t pairs = 0;
    for (size_t at = 0, next = 0; at < piece.text.size(); at = next) {
      next = at + character_length(piece.text, at);
      const bool splits =
          normal.contains(piece.text.substr(0, next)) && normal.contains(piece.text.substr(next));
      pairs += next < piece.text.size() && splits;
    }
    if (pairs <= rules) continue;
    if (missing == 0) example = piece.text;
    missing += pairs - rules;
  }
  if (missing > 0) {
    throw FormatError(
        text("its rules lack pairs that llama.cpp joins, neighbours whose text is a "
             "token: {} in all, the first of '{}'",
             missing, printable(example)));
  }
  return out;
}

}  // namespace accel
