// Chat templates: render the messages of a conversation as a model's training text.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "text/chat/chat_date.h"
#include "text/chat/rendered_chat.h"

namespace accel {

/// A template in the subset of Jinja that models use. Immutable and thread-safe.
class ChatTemplate {
 public:
  /// Throws FormatError with the line for syntax that is not supported or not Jinja. Without a
  /// date, strftime_now is not defined.
  explicit ChatTemplate(std::string_view source, const std::optional<ChatDate>& date = {});

  /// Renders with `variables`, such as {"messages": [...], "add_generation_prompt": false,
  /// "bos_token": "<s>"}. Throws FormatError with the line, also for raise_exception().
  RenderedChat render_spans(const nlohmann::ordered_json& variables) const;
  std::string render(const nlohmann::ordered_json& variables) const {
    return render_spans(variables).text;
  }

  /// Whether it has {% generation %} blocks.
  bool marks_generation() const;
  /// Whether it names strftime_now.
  bool reads_date() const;

 private:
  struct Tree;
  std::shared_ptr<const Tree> tree_;
};

/// The template of a tokenizer: chat_template.jinja beside its tokenizer.json with those of the
/// folder additional_chat_templates, or `chat_template` of its tokenizer_config.json; none without
/// a template. Of several, the one named "default", and "tool_use" for conversations with tools:
/// the source then has both. `path` is as for load_tokenizer(). Throws DataError.
std::optional<std::string> find_chat_template(const std::filesystem::path& path);

}  // namespace accel
