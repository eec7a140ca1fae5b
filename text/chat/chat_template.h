// Chat templates: render the messages of a conversation as a model's training text.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace accel {

/// A template in the subset of Jinja that models use. Immutable and thread-safe.
class ChatTemplate {
 public:
  /// Throws FormatError with the line for syntax that is not supported or not Jinja.
  explicit ChatTemplate(std::string_view source);

  /// Renders with `variables`, such as {"messages": [...], "add_generation_prompt": false,
  /// "bos_token": "<s>"}. The current time is not available. Throws FormatError with the line, also
  /// for raise_exception().
  std::string render(const nlohmann::ordered_json& variables) const;

 private:
  struct Tree;
  std::shared_ptr<const Tree> tree_;
};

/// The template of a tokenizer: chat_template.jinja beside its tokenizer.json, or `chat_template`
/// of its tokenizer_config.json (of several, the one named "default"); none without a template.
/// `path` is as for load_tokenizer(). Throws DataError.
std::optional<std::string> find_chat_template(const std::filesystem::path& path);

}  // namespace accel
