// Messages of a conversation as the text that a model was trained on: its chat template.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace accel {

/// A template in the part of Jinja that models use. Immutable; several threads may use one.
class ChatTemplate {
 public:
  /// Throws FormatError: the line, and what there is not supported or not Jinja.
  explicit ChatTemplate(std::string_view source);

  /// The text for `variables`, a section such as {"messages": [...], "add_generation_prompt":
  /// false, "bos_token": "<s>"}. What time it is the template is not told. Throws FormatError: the
  /// line and what went wrong there, also when the template itself refuses the messages.
  std::string render(const nlohmann::ordered_json& variables) const;

 private:
  struct Tree;
  std::shared_ptr<const Tree> tree_;
};

/// The template of a tokenizer: chat_template.jinja beside its tokenizer.json, or `chat_template`
/// of its tokenizer_config.json, of several the one named default. `path` is as for
/// load_tokenizer(). Nothing when there is none. Throws DataError.
std::optional<std::string> find_chat_template(const std::filesystem::path& path);

}  // namespace accel
