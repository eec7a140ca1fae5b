#include "core/error.h"
#include "runner/formats/bytes.h"
#include "runner/formats/checksum.h"
#include "runner/formats/format_error.h"
#include "runner/formats/mapped_file.h"
#include "runner/tokenizers/json_file.h"
#include "runner/tokenizers/pipeline.h"
#include "runner/tokenizers/sentencepiece.h"
#include "runner/tokenizers/special_tokens.h"

namespace accel {
namespace {

/// A .model file knows of no other file.
std::shared_ptr<const Tokenizer> load_sentencepiece(const std::filesystem::path& path) try {
  const SharedBytes file = map_file(path.string());
  const auto tokenizer = std::make_shared<SentencePiece>(as_text(file.view));
  const auto id_of = [&](const std::string& token) { return tokenizer->id_of(token); };
  tokenizer->describe(usual_special_tokens(id_of), hex_text(checksum_of(file.view)));
  return tokenizer;
} catch (const FormatError& error) {
  throw DataError("'" + path.string() +
                  "' is no model of SentencePiece's that can be read: " + error.what());
}

}  // namespace

std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  const bool folder = std::filesystem::is_directory(path);
  const std::filesystem::path file = folder ? path / "tokenizer.json" : path;
  if (!std::filesystem::exists(file)) {
    throw DataError(folder ? "'" + path.string() + "' holds no 'tokenizer.json'"
                           : "there is no '" + path.string() + "'",
                    "'accel-run tokenizer train' makes one");
  }
  if (!folder && file.extension() == ".model") return load_sentencepiece(file);
  std::shared_ptr<Pipeline> tokenizer;
  std::string sources;
  read_json_file(file, [&](const JsonPlace& place, std::string_view text) {
    tokenizer = std::make_shared<Pipeline>(place);
    sources = text;
  });
  SpecialTokens special = read_special_tokens(
      file.parent_path(), [&](const std::string& token) { return tokenizer->id_of(token); },
      sources);
  const std::optional<TextFill> fill = tokenizer->fill();
  if (!special.pad && fill && tokenizer->id_of(fill->token) == fill->id) special.pad = fill->id;
  tokenizer->describe(special, hex_text(checksum_of(as_bytes(sources))));
  return tokenizer;
}

}  // namespace accel
