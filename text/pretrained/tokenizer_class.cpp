#include "text/pretrained/tokenizer_class.h"

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace accel {
namespace {

std::string_view without_fast(std::string_view name) {
  return name.ends_with("Fast") ? name.substr(0, name.size() - 4) : name;
}

/// A text of an object; empty for none.
template <typename Object>
std::string text_value(const Object& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->template get<std::string>() : "";
}

bool has_remote_code(const nlohmann::ordered_json& config) {
  const auto found = config.find("auto_map");
  if (found == config.end() || found->is_null()) return false;
  if (found->is_array()) return true;
  const auto entry = found->find("AutoTokenizer");
  return entry != found->end() && !entry->is_null();
}

/// The class of a name that files give, or the class that transformers has for it.
TokenizerClass class_of(std::string_view name, std::string source) {
  std::string known = known_tokenizer_class(without_fast(name));
  if (!known.empty() && !find_class_pipeline(known)) return {"", std::move(source), true};
  return {std::move(known), std::move(source)};
}

}  // namespace

TokenizerClass select_tokenizer_class(const nlohmann::ordered_json& tokenizer_config,
                                      const nlohmann::json& model_config, bool is_byte_level) {
  const std::string own = text_value(tokenizer_config, "tokenizer_class");
  const std::string of_model = text_value(model_config, "tokenizer_class");
  const std::string type = text_value(model_config, "model_type");
  const std::string& named = own.empty() ? of_model : own;
  const std::string_view usual = tokenizer_class_of(type);
  const bool is_remote = has_remote_code(tokenizer_config);
  const std::string source =
      own.empty() ? text("'tokenizer_class' of config.json is '{}'", printable(of_model))
                  : text("'tokenizer_class' is '{}'", printable(own));
  const bool is_own_class = (has_model_config(type) && !usual.empty()) ||
                            (!own.empty() && !known_tokenizer_class(without_fast(own)).empty());
  if (is_remote && !is_own_class && !ignores_named_class(type)) {
    throw FormatError("'auto_map' names Python code of a tokenizer, which is not run");
  }
  if (!is_remote && without_fast(named) == "LlamaTokenizer" && is_byte_level &&
      !ignores_named_class(type)) {
    return {};
  }
  if (!is_remote && !named.empty() && !usual.empty() && usual != without_fast(named)) {
    if (usual == "TokenizersBackend") return {};
    if (!ignores_named_class(type)) return class_of(named, source);
    return class_of(usual, text("'model_type' of config.json is '{}'", printable(type)));
  }
  if (!named.empty()) return class_of(named, source);
  if (!has_model_config(type)) return {};
  return class_of(usual, text("'model_type' of config.json is '{}'", printable(type)));
}

}  // namespace accel
