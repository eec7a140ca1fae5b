// Unigram tokenizers as llama.cpp has them.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/format_error.h"
#include "core/base/text.h"
#include "formats/base64.h"
#include "formats/sentencepiece_file.h"
#include "text/character_map.h"
#include "text/gguf_vocabulary.h"

namespace accel {
namespace {

constexpr auto kNoByteTokens = "it has byte fallback, which llama.cpp's Unigram lacks";

/// How texts are prepared, by the steps of a tokenizer.json.
struct UnigramSteps {
  std::string map;
  bool squeezes = false;              ///< several spaces to one
  bool strips = false;                ///< the end of a text
  bool splits_at_whitespace = false;  ///< and drops it
  MetaspaceOptions marks;
};

bool squeezes_spaces(const JsonNode& step) {
  if (step.type() != "Replace" || step.at("pattern").text_or("Regex", "") != " {2,}") return false;
  const std::string content = step.at("content").text();
  return content == " " || content == kMetaspaceMark;
}

void read_unigram_normalizers(const JsonNode& file, UnigramSteps& out) {
  bool is_first = true;
  for (const JsonNode& step : gguf_steps(file.find("normalizer"), "normalizers")) {
    if (step.type() == "Precompiled" && is_first) {
      out.map = base64_decode(step.at("precompiled_charsmap").text()).value_or("");
    } else if (step.type() == "Strip" && step.flag_or("strip_right", true)) {
      out.strips = true;
    } else if (squeezes_spaces(step)) {
      out.squeezes = true;
    } else {
      throw FormatError(text("its normalizer is '{}'", step.type()));
    }
    is_first = false;
  }
}

UnigramSteps read_unigram_steps(const JsonNode& file) {
  UnigramSteps out;
  read_unigram_normalizers(file, out);
  const std::vector<JsonNode> words = gguf_steps(file.find("pre_tokenizer"), "pretokenizers");
  out.splits_at_whitespace = words.size() == 2 && words.front().type() == "WhitespaceSplit";
  const bool has_marks = !words.empty() && words.back().type() == "Metaspace";
  if (!has_marks || (words.size() == 2 && !out.splits_at_whitespace) || words.size() > 2) {
    throw FormatError("its 'pre_tokenizer' is no Metaspace, nor one after a WhitespaceSplit");
  }
  out.marks = read_metaspace(words.back());
  return out;
}

/// Whether the map keeps whitespace other than spaces.
bool keeps_other_whitespace(const std::string& map) {
  const CharacterMap replacements = map.empty() ? CharacterMap() : CharacterMap(map);
  for (const char* whitespace : {"\t", "\n", "\r", "\xc2\xa0", "\xe2\x80\x83", "\xe3\x80\x80"}) {
    const auto found = replacements.longest(whitespace);
    if (!found || found->replacement != " ") return true;
  }
  return false;
}

void check_space_prefix(const GgufVocabulary& vocabulary) {
  if (vocabulary.remove_extra_whitespaces && !vocabulary.add_space_prefix) {
    throw FormatError(
        "it removes repeated spaces without a space prefix, which llama.cpp always adds then");
  }
}

void read_unigram_spaces(const UnigramSteps& steps, GgufVocabulary& out) {
  out.add_space_prefix = gguf_space_prefix(steps.marks, out.notes);
  out.remove_extra_whitespaces = steps.splits_at_whitespace || steps.squeezes;
  check_space_prefix(out);
  if (steps.strips && !out.remove_extra_whitespaces) {
    throw FormatError("it removes the spaces at the end of a text, and no repeated ones");
  }
  if (steps.splits_at_whitespace && keeps_other_whitespace(steps.map)) {
    out.notes.emplace_back(
        "llama.cpp splits at spaces, and not at other whitespace as the tokenizer does");
  }
  if (steps.squeezes && !steps.strips && !steps.splits_at_whitespace) {
    out.notes.emplace_back("llama.cpp removes the spaces at the end of a text");
  }
  if (!out.remove_extra_whitespaces && out.add_space_prefix) {
    out.notes.emplace_back(
        "llama.cpp prepends a space to texts that begin with one, and none to those of spaces "
        "only");
  }
}

/// The tokens of the model, and those that are added. Of equal ones the last is used.
void read_unigram_pieces(const JsonNode& file, GgufVocabulary& out) {
  std::map<std::string, size_t> last;
  for (const JsonNode& entry : file.at("model").at("vocab").items()) {
    const std::vector<JsonNode> token = entry.items();
    const auto [known, fresh] = last.emplace(token.at(0).text(), out.pieces.size());
    if (!fresh) out.pieces[std::exchange(known->second, out.pieces.size())] = {};
    out.pieces.push_back({known->first, GgufTokenType::kNormal});
    out.scores.push_back(static_cast<float>(token.at(1).number()));
  }
  out.pieces.at(static_cast<size_t>(*out.unknown)).type = GgufTokenType::kUnknown;
  add_added_pieces(file, out.pieces);
  out.scores.resize(out.pieces.size(), 0);
}

/// The score of an unknown character depends on the least score of the tokens that count.
void check_least_score(const GgufVocabulary& vocabulary, float least) {
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const bool counts = vocabulary.pieces[id].type == GgufTokenType::kNormal;
    if (counts && vocabulary.scores[id] == least) return;
  }
  throw FormatError(
      "its lowest score is a special token's, and llama.cpp scores unknown characters by normal "
      "ones");
}

void add_unigram_note(GgufVocabulary& out) {
  out.notes.emplace_back(
      "llama.cpp may choose another of several equally likely tokenizations, as of repeated "
      "characters");
}

}  // namespace

GgufVocabulary unigram_vocabulary(const JsonNode& file) {
  const JsonNode model = file.at("model");
  GgufVocabulary out{.kind = GgufTokenizerKind::kUnigram};
  if (model.flag_or("byte_fallback", false)) throw FormatError(kNoByteTokens);
  if (model.find("unk_id").is_null()) throw FormatError("it has no unknown token");
  const auto count = static_cast<int64_t>(model.at("vocab").items().size());
  out.unknown = static_cast<int32_t>(model.at("unk_id").integer(0, count - 1));
  const UnigramSteps steps = read_unigram_steps(file);
  read_unigram_pieces(file, out);
  const auto of_model = out.scores.begin() + count;
  check_least_score(out, *std::min_element(out.scores.begin(), of_model));
  read_unigram_spaces(steps, out);
  if (steps.marks.split) check_words_in_pieces(out.pieces);
  out.character_map = steps.map;
  if (!steps.map.empty()) {
    out.notes.emplace_back(
        "llama.cpp applies the character map to the longest match, and the tokenizer to one "
        "grapheme cluster at a time");
  }
  for (size_t id = 0; id < out.pieces.size(); ++id) {
    if (out.pieces[id].text.empty()) out.scores[id] = kGgufUnusedScore;
  }
  add_unigram_note(out);
  return out;
}

GgufVocabulary unigram_vocabulary(const SentencePieceFile& file) {
  using Kind = SentencePieceFile::Kind;
  if (file.byte_fallback) throw FormatError(kNoByteTokens);
  GgufVocabulary out{.kind = GgufTokenizerKind::kUnigram};
  out.add_space_prefix = file.add_dummy_prefix;
  out.remove_extra_whitespaces = file.remove_extra_whitespaces;
  check_space_prefix(out);
  out.character_map = file.character_map;
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    if (piece.kind == Kind::kUnused) throw FormatError("it has unused pieces");
    if (piece.kind == Kind::kUnknown) out.unknown = static_cast<int32_t>(out.scores.size());
    out.scores.push_back(piece.score);
  }
  if (file.add_dummy_prefix && !file.remove_extra_whitespaces) {
    out.notes.emplace_back("llama.cpp prepends no space to texts of spaces only");
  }
  add_unigram_note(out);
  return out;
}

}  // namespace accel
