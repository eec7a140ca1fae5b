#include "text/gguf_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "formats/sentencepiece_file.h"
#include "text/chat/chat_template.h"
#include "text/gguf_splits.h"
#include "text/gguf_vocabulary.h"
#include "text/json_node.h"
#include "text/pre_tokenizer.h"
#include "text/pretrained/tokenizer_folder.h"
#include "text/tokenizer.h"

namespace accel {
namespace {

constexpr auto kPrefix = "tokenizer.ggml.";

[[noreturn]] void refuse_tokenizer(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kRecipe,
              text("llama.cpp has no such tokenizer as '{}': {}", path.string(), why),
              text("it has byte-level BPE with the splits {}, SentencePiece's BPE with byte "
                   "fallback, and Unigram",
                   gguf_splits_text()));
}

/// Throws FormatError with the reason.
GgufVocabulary byte_level_vocabulary(const JsonNode& file) {
  GgufVocabulary out;
  out.split = gguf_split(file);
  if (out.split.empty()) {
    throw FormatError(text("its 'pre_tokenizer' and 'ignore_merges' are none of llama.cpp's: {}",
                           file.find("pre_tokenizer").json().dump()));
  }
  for (const JsonNode& step : gguf_steps(file.find("normalizer"), "normalizers")) {
    if (step.type() != "NFC") throw FormatError(text("its normalizer is '{}'", step.type()));
    out.notes.emplace_back("llama.cpp does not compose characters as the tokenizer does (NFC)");
  }
  const JsonNode model = file.at("model");
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const JsonNode given = model.find(affix);
    if (!given.is_null() && !given.text().empty())
      throw FormatError(text("its model has '{}'", affix));
  }
  out.pieces = gguf_pieces(file);
  for (const GgufMerge& merge : gguf_merges(model)) {
    out.merges.push_back(merge.left + " " + merge.right);
  }
  return out;
}

/// Reads the steps that put marks for spaces. Throws FormatError for others.
void read_marks(const JsonNode& file, GgufVocabulary& out) {
  bool has_marks = false;
  for (const JsonNode& step : gguf_steps(file.find("normalizer"), "normalizers")) {
    if (step.type() == "Prepend" && step.at("prepend").text() == kMetaspaceMark) {
      out.add_space_prefix = true;
    } else if (step.type() == "Replace" && step.at("pattern").text_or("String", "") == " " &&
               step.at("content").text() == kMetaspaceMark) {
      has_marks = true;
    } else {
      throw FormatError(text("its normalizer is '{}'", step.type()));
    }
  }
  const JsonNode words = file.find("pre_tokenizer");
  if (words.is_null() && has_marks) return;
  // Gemma's splits at spaces, which are marks already.
  if (has_marks && words.type() == "Split" && words.at("pattern").text_or("String", "") == " ") {
    return;
  }
  const std::string kind = words.is_null() ? "absent" : words.type();
  if (kind != "Metaspace") throw FormatError(text("its 'pre_tokenizer' is {}", kind));
  const MetaspaceOptions options = read_metaspace(words);
  if (gguf_space_prefix(options, out.notes)) out.add_space_prefix = true;
  if (options.split) check_words_in_pieces(out.pieces);
}

/// Throws FormatError with the reason.
GgufVocabulary marked_vocabulary(const JsonNode& file) {
  GgufVocabulary out;
  out.kind = GgufTokenizerKind::kSentencePiece;
  out.pieces = gguf_pieces(file);
  read_marks(file, out);
  const auto bytes =
      std::count_if(out.pieces.begin(), out.pieces.end(),
                    [](const GgufPiece& piece) { return piece.type == GgufTokenType::kByte; });
  if (bytes != 256) throw FormatError(text("it has {} of 256 byte tokens", bytes));
  out.scores = gguf_scores(out.pieces, gguf_merges(file.at("model")));
  return out;
}

/// Notes of added tokens that llama.cpp finds otherwise.
void add_loose_tokens(const JsonNode& added, std::vector<std::string>& notes) {
  if (added.is_null()) return;
  for (const JsonNode& token : added.items()) {
    const bool is_loose = token.flag_or("lstrip", false) || token.flag_or("rstrip", false) ||
                          token.flag_or("single_word", false);
    if (!is_loose) continue;
    notes.push_back(
        text("llama.cpp finds the token '{}' without regard to the characters "
             "beside it (lstrip, rstrip, single_word)",
             printable(token.at("content").text())));
  }
}

/// Throws FormatError with the reason.
GgufVocabulary vocabulary_of(const JsonNode& file) {
  const JsonNode model = file.at("model");
  const std::string& type = model.type();
  if (type == "Unigram") return unigram_vocabulary(file);
  if (type != "BPE") throw FormatError(text("its model is '{}'", type));
  return model.flag_or("byte_fallback", false) ? marked_vocabulary(file)
                                               : byte_level_vocabulary(file);
}

GgufVocabulary json_vocabulary(const std::filesystem::path& path) {
  const TokenizerFolder read = read_tokenizer_folder(path);
  const JsonNode file(read.file, "");
  try {
    GgufVocabulary out = vocabulary_of(file);
    add_loose_tokens(file.find("added_tokens"), out.notes);
    return out;
  } catch (const FormatError& error) {
    refuse_tokenizer(path, error.what());
  }
}

/// SentencePiece's BPE. Throws FormatError with the reason.
GgufVocabulary merged_vocabulary(const SentencePieceFile& file) {
  if (!file.byte_fallback) throw FormatError("it has no byte fallback");
  GgufVocabulary out;
  out.kind = GgufTokenizerKind::kSentencePiece;
  out.add_space_prefix = file.add_dummy_prefix;
  if (!file.character_map.empty()) {
    out.notes.emplace_back("llama.cpp does not normalize characters as the tokenizer does");
  }
  if (file.remove_extra_whitespaces) {
    out.notes.emplace_back("llama.cpp does not remove repeated spaces as the tokenizer does");
  }
  for (const SentencePieceFile::Piece& piece : file.pieces) out.scores.push_back(piece.score);
  return out;
}

/// Throws FormatError with the reason.
GgufVocabulary vocabulary_of(const SentencePieceFile& file) {
  using Kind = SentencePieceFile::Kind;
  using Model = SentencePieceFile::Model;
  if (file.model != Model::kBpe && file.model != Model::kUnigram) {
    throw FormatError("it is neither BPE nor Unigram");
  }
  if (file.whitespace_as_suffix) throw FormatError("its words end with their space");
  if (!file.escape_whitespaces) throw FormatError("it does not mark spaces");
  GgufVocabulary out =
      file.model == Model::kBpe ? merged_vocabulary(file) : unigram_vocabulary(file);
  bool is_defined = false;
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    std::string shown = piece.text;
    if (piece.kind == Kind::kUserDefined)
      shown = replaced(Pattern::literal(kMetaspaceMark), shown, " ");
    is_defined = is_defined || piece.kind == Kind::kUserDefined;
    out.pieces.push_back({std::move(shown), static_cast<GgufTokenType>(piece.kind)});
  }
  if (is_defined) {
    out.notes.emplace_back(
        "llama.cpp normalizes the texts before and after a user-defined piece separately");
  }
  return out;
}

GgufVocabulary model_vocabulary(const std::filesystem::path& path) {
  const SharedBytes bytes = map_file(path.string());
  const SentencePieceFile file = read_sentencepiece_file(as_text(bytes.view));
  try {
    return vocabulary_of(file);
  } catch (const FormatError& error) {
    refuse_tokenizer(path, error.what());
  }
}

/// Adds unused tokens for the rows without one.
void fill_rows(const std::filesystem::path& path, int64_t rows, GgufVocabulary& vocabulary) {
  const auto count = static_cast<size_t>(rows);
  if (vocabulary.pieces.size() > count) {
    throw Error(ExitCode::kRecipe,
                text("the tokenizer '{}' has {} tokens, and the model's embedding {} rows",
                     path.string(), vocabulary.pieces.size(), rows),
                "export with the tokenizer that the model was trained with");
  }
  vocabulary.pieces.resize(count);
  if (vocabulary.kind != GgufTokenizerKind::kByteLevel) {
    vocabulary.scores.resize(count, kGgufUnusedScore);
  }
  for (size_t id = 0; id < count; ++id) {
    GgufPiece& piece = vocabulary.pieces[id];
    if (piece.text.empty()) piece = {text("[PAD{}]", id), GgufTokenType::kUnused};
  }
}

void add_vocabulary(const GgufVocabulary& vocabulary, std::vector<GgufField>& fields) {
  const auto add = [&](const char* key, GgufValue value) {
    fields.push_back({std::string(kPrefix) + key, std::move(value)});
  };
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  for (const GgufPiece& piece : vocabulary.pieces) {
    tokens.push_back(piece.text);
    types.push_back(static_cast<int32_t>(piece.type));
  }
  const bool is_byte_level = vocabulary.kind == GgufTokenizerKind::kByteLevel;
  const bool is_unigram = vocabulary.kind == GgufTokenizerKind::kUnigram;
  add("model", std::string(is_byte_level ? "gpt2" : is_unigram ? "t5" : "llama"));
  add("pre", is_byte_level ? vocabulary.split : std::string("default"));
  add("tokens", std::move(tokens));
  if (!is_byte_level) add("scores", vocabulary.scores);
  add("token_type", std::move(types));
  if (is_byte_level) add("merges", vocabulary.merges);
  add("add_space_prefix", vocabulary.add_space_prefix);
  if (!is_unigram) return;
  add("remove_extra_whitespaces", vocabulary.remove_extra_whitespaces);
  if (vocabulary.character_map.empty()) return;
  add("precompiled_charsmap",
      std::vector<uint8_t>(vocabulary.character_map.begin(), vocabulary.character_map.end()));
}

/// The end token that llama.cpp takes where a file names none.
size_t usual_end_token(GgufTokenizerKind kind) {
  switch (kind) {
    case GgufTokenizerKind::kByteLevel:
      return 11;
    case GgufTokenizerKind::kSentencePiece:
      return 2;
    case GgufTokenizerKind::kUnigram:
      break;
  }
  return 1;
}

/// Adds the ids of special tokens, and those that the tokenizer adds to a text.
void add_special(const std::filesystem::path& path, const Tokenizer& tokenizer,
                 const GgufVocabulary& vocabulary, GgufTokenizer& out) {
  const std::vector<int32_t> plain = tokenizer.encode("a", false), whole = tokenizer.encode("a");
  const auto found = std::search(whole.begin(), whole.end(), plain.begin(), plain.end());
  const auto before = found - whole.begin();
  const auto after = static_cast<ptrdiff_t>(whole.size() - plain.size()) - before;
  if (plain.empty() || found == whole.end() || before > 1 || after > 1) {
    refuse_tokenizer(path, "it adds more to a text than one token before and one after it");
  }
  SpecialTokens special = tokenizer.special();
  if (before == 1) special.bos = whole.front();
  if (after == 1) special.eos = whole.back();
  if (vocabulary.unknown) special.unk = vocabulary.unknown;
  const std::pair<const char*, std::optional<int32_t>> ids[] = {{"bos_token_id", special.bos},
                                                                {"eos_token_id", special.eos},
                                                                {"unknown_token_id", special.unk},
                                                                {"padding_token_id", special.pad},
                                                                {"mask_token_id", special.mask}};
  for (const auto& [key, id] : ids) {
    if (id) out.fields.push_back({std::string(kPrefix) + key, static_cast<uint32_t>(*id)});
  }
  out.fields.push_back({std::string(kPrefix) + "add_bos_token", before == 1});
  out.fields.push_back({std::string(kPrefix) + "add_eos_token", after == 1});
  const size_t usual = usual_end_token(vocabulary.kind);
  if (special.eos || usual >= vocabulary.pieces.size()) return;
  out.notes.push_back(
      text("the tokenizer has no end-of-sequence token: llama.cpp uses its default, {} '{}'", usual,
           printable(vocabulary.pieces[usual].text)));
}

}  // namespace

GgufTokenizer gguf_tokenizer(const std::filesystem::path& path, int64_t rows) {
  namespace fs = std::filesystem;
  fs::path file = path;
  if (fs::is_directory(path)) {
    file = fs::exists(path / "tokenizer.json") ? path / "tokenizer.json" : path / "tokenizer.model";
  }
  const auto tokenizer = load_tokenizer(file);
  GgufVocabulary vocabulary =
      file.extension() == ".model" ? model_vocabulary(file) : json_vocabulary(file);
  fill_rows(file, rows, vocabulary);
  GgufTokenizer out;
  add_vocabulary(vocabulary, out.fields);
  out.notes = std::move(vocabulary.notes);
  add_special(file, *tokenizer, vocabulary, out);
  if (auto chat = find_chat_template(file)) {
    out.fields.push_back({"tokenizer.chat_template", std::move(*chat)});
  }
  return out;
}

}  // namespace accel
