#include <functional>
#include <nlohmann/json.hpp>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "formats/checksum.h"
#include "text/json_node.h"
#include "text/pipeline.h"
#include "text/sentencepiece.h"

namespace accel {
namespace {

struct SpecialTokenRole {
  const char* key;
  std::optional<int32_t> SpecialTokens::*id;
  std::vector<const char*> spellings;
};

const std::vector<SpecialTokenRole>& special_token_roles() {
  static const std::vector<SpecialTokenRole> all = {
      {"pad_token", &SpecialTokens::pad, {"[PAD]", "<pad>", "<|pad|>"}},
      {"bos_token", &SpecialTokens::bos, {"<s>", "<bos>", "<|begin_of_text|>"}},
      {"eos_token", &SpecialTokens::eos, {"</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>"}},
      {"unk_token", &SpecialTokens::unk, {"[UNK]", "<unk>"}},
      {"mask_token", &SpecialTokens::mask, {"[MASK]", "<mask>"}},
      {"cls_token", &SpecialTokens::cls, {"[CLS]"}},
      {"sep_token", &SpecialTokens::sep, {"[SEP]"}}};
  return all;
}

/// A token's id; none for an unknown token.
using IdOf = std::function<std::optional<int32_t>(const std::string&)>;

/// Reads the tokens that a file names, as strings or as objects with a 'content'.
void read_named_tokens(const std::filesystem::path& path, const IdOf& id_of, SpecialTokens& tokens,
                       std::string& sources) {
  if (!std::filesystem::exists(path)) return;
  read_json_file(path, [&](const JsonNode& file, std::string_view text) {
    sources += text;
    for (const SpecialTokenRole& role : special_token_roles()) {
      const JsonNode node = file.find(role.key);
      if (node.is_null()) continue;
      const std::string& token = node.is_object() ? node.at("content").text() : node.text();
      tokens.*role.id = id_of(token);
      if (!(tokens.*role.id)) {
        node.refuse(
            accel::text("is '{}', which is not a token of the tokenizer", printable(token)));
      }
    }
  });
}

void find_usual_tokens(const IdOf& id_of, SpecialTokens& tokens) {
  for (const SpecialTokenRole& role : special_token_roles()) {
    for (const char* spelling : role.spellings) {
      if (!(tokens.*role.id)) tokens.*role.id = id_of(spelling);
    }
  }
}

/// The special tokens by their usual spellings alone.
SpecialTokens usual_special_tokens(const IdOf& id_of) {
  SpecialTokens tokens;
  find_usual_tokens(id_of, tokens);
  return tokens;
}

/// Reads special_tokens_map.json and tokenizer_config.json of a folder, of which the latter wins;
/// other tokens are found by their usual spellings. Appends both files' texts to `sources`. Throws
/// DataError with the file and the path in it.
SpecialTokens read_special_tokens(const std::filesystem::path& folder, const IdOf& id_of,
                                  std::string& sources) {
  SpecialTokens tokens;
  read_named_tokens(folder / "special_tokens_map.json", id_of, tokens, sources);
  read_named_tokens(folder / "tokenizer_config.json", id_of, tokens, sources);
  find_usual_tokens(id_of, tokens);
  return tokens;
}

/// A .model file has no config files beside it.
std::shared_ptr<const Tokenizer> load_sentencepiece(const std::filesystem::path& path) try {
  const SharedBytes file = map_file(path.string());
  const auto tokenizer = std::make_shared<SentencePiece>(as_text(file.view));
  const auto id_of = [&](const std::string& token) { return tokenizer->id_of(token); };
  tokenizer->set_special_tokens(usual_special_tokens(id_of), hex_text(checksum_of(file.view)));
  return tokenizer;
} catch (const FormatError& error) {
  throw DataError(
      text("'{}' is not a readable SentencePiece model: {}", path.string(), error.what()));
}

}  // namespace

std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  const bool folder = std::filesystem::is_directory(path);
  const std::filesystem::path file = folder ? path / "tokenizer.json" : path;
  if (!std::filesystem::exists(file)) {
    throw DataError(folder ? text("'{}' has no 'tokenizer.json'", path.string())
                           : text("no file '{}'", path.string()),
                    "'accel-run tokenizer train' makes one");
  }
  if (!folder && file.extension() == ".model") return load_sentencepiece(file);
  std::shared_ptr<Pipeline> tokenizer;
  std::string sources;
  read_json_file(file, [&](const JsonNode& node, std::string_view text) {
    tokenizer = std::make_shared<Pipeline>(node);
    sources = text;
  });
  SpecialTokens special = read_special_tokens(
      file.parent_path(), [&](const std::string& token) { return tokenizer->id_of(token); },
      sources);
  const std::optional<PaddingConfig> padding = tokenizer->padding();
  if (!special.pad && padding && tokenizer->id_of(padding->token) == padding->id)
    special.pad = padding->id;
  tokenizer->set_special_tokens(special, hex_text(checksum_of(as_bytes(sources))));
  tokenizer->set_file(file.string());
  return tokenizer;
}

}  // namespace accel
