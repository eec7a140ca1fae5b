#include "core/error.h"
#include "runner/formats/bytes.h"
#include "runner/formats/checksum.h"
#include "runner/tokenizers/json_file.h"
#include "runner/tokenizers/pipeline.h"
#include "runner/tokenizers/special_tokens.h"

namespace accel {

std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  const bool folder = std::filesystem::is_directory(path);
  const std::filesystem::path file = folder ? path / "tokenizer.json" : path;
  if (!std::filesystem::exists(file)) {
    throw DataError(folder ? "'" + path.string() + "' holds no 'tokenizer.json'"
                           : "there is no '" + path.string() + "'",
                    "'accel-run tokenizer train' makes one");
  }
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
