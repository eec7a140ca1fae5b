#include "text/gguf_vocabulary.h"

#include <algorithm>

#include "core/base/format_error.h"

namespace accel {
namespace {

void collect_steps(const JsonNode& node, const char* list, std::vector<JsonNode>& out) {
  if (node.is_null()) return;
  if (node.type() != "Sequence") {
    out.push_back(node);
    return;
  }
  for (const JsonNode& step : node.at(list).items()) collect_steps(step, list, out);
}

}  // namespace

std::vector<JsonNode> gguf_steps(const JsonNode& node, const char* list) {
  std::vector<JsonNode> out;
  collect_steps(node, list, out);
  return out;
}

bool gguf_space_prefix(const MetaspaceOptions& options, std::vector<std::string>& notes) {
  if (options.mark != kMetaspaceMark) throw FormatError("it marks spaces otherwise");
  if (options.prepend == PrependScheme::kFirst) {
    notes.emplace_back(
        "llama.cpp prepends a space after a special token too, not only to the text");
  }
  return options.prepend != PrependScheme::kNever;
}

void check_words_in_pieces(const std::vector<GgufPiece>& pieces) {
  const auto crosses = [](const GgufPiece& piece) {
    return piece.type == GgufTokenType::kNormal &&
           piece.text.find(kMetaspaceMark, 1) != piece.text.npos;
  };
  if (std::any_of(pieces.begin(), pieces.end(), crosses)) {
    throw FormatError("it has tokens across spaces, at which it splits");
  }
}

}  // namespace accel
