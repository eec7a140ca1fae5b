#include "runner/tokenizers/special_tokens.h"

#include <nlohmann/json.hpp>

#include "core/utf8.h"
#include "runner/tokenizers/json_file.h"

namespace accel {
namespace {

struct Role {
  const char* key;
  std::optional<int32_t> SpecialTokens::*id;
  std::vector<const char*> spellings;
};

const std::vector<Role>& roles() {
  static const std::vector<Role> all = {
      {"pad_token", &SpecialTokens::pad, {"[PAD]", "<pad>", "<|pad|>"}},
      {"bos_token", &SpecialTokens::bos, {"<s>", "<bos>", "<|begin_of_text|>"}},
      {"eos_token", &SpecialTokens::eos, {"</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>"}},
      {"unk_token", &SpecialTokens::unk, {"[UNK]", "<unk>"}},
      {"mask_token", &SpecialTokens::mask, {"[MASK]", "<mask>"}},
      {"cls_token", &SpecialTokens::cls, {"[CLS]"}},
      {"sep_token", &SpecialTokens::sep, {"[SEP]"}}};
  return all;
}

using IdOf = std::function<std::optional<int32_t>(const std::string&)>;

/// Takes the tokens that a file names, as texts or as objects with a 'content'.
void take_named(const std::filesystem::path& path, const IdOf& id_of, SpecialTokens& tokens,
                std::string& sources) {
  if (!std::filesystem::exists(path)) return;
  read_json_file(path, [&](const JsonPlace& file, std::string_view text) {
    sources += text;
    for (const Role& role : roles()) {
      const JsonPlace place = file.find(role.key);
      if (place.is_null()) continue;
      const std::string& token = place.is_object() ? place.at("content").text() : place.text();
      tokens.*role.id = id_of(token);
      if (!(tokens.*role.id)) {
        place.refuse("is '" + printable(token) + "', which the tokenizer does not have");
      }
    }
  });
}

void take_usual(const IdOf& id_of, SpecialTokens& tokens) {
  for (const Role& role : roles()) {
    for (const char* spelling : role.spellings) {
      if (!(tokens.*role.id)) tokens.*role.id = id_of(spelling);
    }
  }
}

}  // namespace

SpecialTokens usual_special_tokens(const IdOf& id_of) {
  SpecialTokens tokens;
  take_usual(id_of, tokens);
  return tokens;
}

SpecialTokens read_special_tokens(const std::filesystem::path& folder, const IdOf& id_of,
                                  std::string& sources) {
  SpecialTokens tokens;
  take_named(folder / "special_tokens_map.json", id_of, tokens, sources);
  take_named(folder / "tokenizer_config.json", id_of, tokens, sources);
  take_usual(id_of, tokens);
  return tokens;
}

}  // namespace accel
