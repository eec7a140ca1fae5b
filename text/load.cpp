#include <functional>
#include <nlohmann/json.hpp>
#include <set>

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

/// Special tokens and the keys that files give, also as null.
struct NamedTokens {
  SpecialTokens tokens;
  std::set<std::string> keys;
  bool has_added_tokens = false;  ///< the file has `added_tokens_decoder`
};

/// Reads the tokens that a file names, as strings or as objects with a 'content', unless `is_used`
/// is false. Returns its text.
std::string read_named_tokens(const std::filesystem::path& path, const IdOf& id_of, bool is_used,
                              NamedTokens& named) {
  std::string source;
  if (!std::filesystem::exists(path)) return source;
  read_json_file(path, [&](const JsonNode& file, std::string_view text) {
    source = text;
    if (!is_used) return;
    named.has_added_tokens = file.json().contains("added_tokens_decoder");
    for (const SpecialTokenRole& role : special_token_roles()) {
      if (!file.json().contains(role.key)) continue;
      named.keys.insert(role.key);
      const JsonNode node = file.find(role.key);
      named.tokens.*role.id = std::nullopt;
      if (node.is_null()) continue;
      const std::string& token = node.is_object() ? node.at("content").text() : node.text();
      named.tokens.*role.id = id_of(token);
      if (!(named.tokens.*role.id)) {
        node.refuse(
            accel::text("is '{}', which is not a token of the tokenizer", printable(token)));
      }
    }
  });
  return source;
}

/// By the usual spellings, but for tokens that are null in a file: of these a padding token alone
/// is found, which changes no output.
void find_usual_tokens(const IdOf& id_of, const std::set<std::string>& named,
                       SpecialTokens& tokens) {
  for (const SpecialTokenRole& role : special_token_roles()) {
    if (named.contains(role.key) && role.id != &SpecialTokens::pad) continue;
    for (const char* spelling : role.spellings) {
      if (!(tokens.*role.id)) tokens.*role.id = id_of(spelling);
    }
  }
}

/// The special tokens by their usual spellings alone.
SpecialTokens usual_special_tokens(const IdOf& id_of) {
  SpecialTokens tokens;
  find_usual_tokens(id_of, {}, tokens);
  return tokens;
}

/// Reads tokenizer_config.json of a folder and special_tokens_map.json, which wins but is not read
/// beside an `added_tokens_decoder`, as in transformers; other tokens are found by their usual
/// spellings. Appends both files' texts to `sources`. Throws DataError with the file and the path
/// in it.
SpecialTokens read_special_tokens(const std::filesystem::path& folder, const IdOf& id_of,
                                  std::string& sources) {
  NamedTokens named;
  const std::string config =
      read_named_tokens(folder / "tokenizer_config.json", id_of, true, named);
  sources +=
      read_named_tokens(folder / "special_tokens_map.json", id_of, !named.has_added_tokens, named);
  sources += config;
  find_usual_tokens(id_of, named.keys, named.tokens);
  return named.tokens;
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
