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
#include "text/pretrained/tokenizer_folder.h"
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

/// Tokens by their usual spellings; those that are known already are kept.
void find_usual_tokens(const IdOf& id_of, SpecialTokens& tokens) {
  for (const SpecialTokenRole& role : special_token_roles()) {
    for (const char* spelling : role.spellings) {
      if (!(tokens.*role.id)) tokens.*role.id = id_of(spelling);
    }
  }
}

/// The special tokens that files or the class name. Where they name none, tokens are found by their
/// usual spellings; a padding token, which changes no output, always is.
SpecialTokens special_tokens_of(const TokenizerFolder& folder, const Pipeline& tokenizer) {
  SpecialTokens tokens;
  const auto id_of = [&](const std::string& token) { return tokenizer.id_of(token); };
  for (const SpecialTokenRole& role : special_token_roles()) {
    const auto found = folder.special_tokens.find(role.key);
    if (found != folder.special_tokens.end()) tokens.*role.id = id_of(found->second);
  }
  SpecialTokens usual;
  find_usual_tokens(id_of, usual);
  for (const SpecialTokenRole& role : special_token_roles()) {
    const bool may_find = !folder.names_special_tokens || role.id == &SpecialTokens::pad;
    if (may_find && !(tokens.*role.id)) tokens.*role.id = usual.*role.id;
  }
  return tokens;
}

/// A .model file has no config files beside it.
std::shared_ptr<const Tokenizer> load_sentencepiece(const std::filesystem::path& path) try {
  const SharedBytes file = map_file(path.string());
  const auto tokenizer = std::make_shared<SentencePiece>(as_text(file.view));
  const auto id_of = [&](const std::string& token) { return tokenizer->id_of(token); };
  SpecialTokens special;
  find_usual_tokens(id_of, special);
  tokenizer->set_special_tokens(special, hex_text(checksum_of(file.view)));
  return tokenizer;
} catch (const FormatError& error) {
  throw DataError(
      text("'{}' is not a readable SentencePiece model: {}", path.string(), error.what()));
}

/// Throws for a path without a tokenizer.json.
[[noreturn]] void refuse_missing(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) {
    throw DataError(text("no file '{}'", path.string()), "'accel-run tokenizer train' makes one");
  }
  for (const char* name :
       {"vocab.json", "vocab.txt", "spiece.model", "tokenizer.model", "sentencepiece.bpe.model",
        "spm.model", "tekken.json", "tiktoken.model"}) {
    if (!std::filesystem::exists(path / name)) continue;
    throw DataError(text("'{}' has no 'tokenizer.json', only '{}'", path.string(), name),
                    "in Python, AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) "
                    "writes it");
  }
  throw DataError(text("'{}' has no 'tokenizer.json'", path.string()),
                  "'accel-run tokenizer train' makes one");
}

}  // namespace

std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  const bool folder = std::filesystem::is_directory(path);
  const std::filesystem::path file = folder ? path / "tokenizer.json" : path;
  if (!std::filesystem::exists(file) && !(folder && has_class_vocabulary(path))) {
    refuse_missing(path);
  }
  if (!folder && file.extension() == ".model") return load_sentencepiece(file);
  const TokenizerFolder read = read_tokenizer_folder(file);
  std::shared_ptr<Pipeline> tokenizer;
  try {
    tokenizer = std::make_shared<Pipeline>(
        JsonNode(read.file, ""), PipelineOptions{read.split_special_tokens, read.clean_up_spaces});
  } catch (const FormatError& error) {
    throw DataError(text("'{}': {}", file.string(), error.what()));
  }
  tokenizer->set_special_tokens(special_tokens_of(read, *tokenizer),
                                hex_text(checksum_of(as_bytes(read.sources))));
  tokenizer->set_file(file.string());
  return tokenizer;
}

}  // namespace accel
