#include "text/chat/chat_template.h"

#include <map>
#include <nlohmann/json.hpp>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "text/chat/template_run.h"
#include "text/json_node.h"

namespace accel {

struct ChatTemplate::Tree {
  std::vector<TemplateStatement> statements;
  std::optional<ChatDate> date;
  bool marks_generation = false;
  bool reads_date = false;
};

ChatTemplate::ChatTemplate(std::string_view source, const std::optional<ChatDate>& date) {
  Tree tree;
  std::vector<TemplateToken> tokens = template_tokens(source);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].kind != TemplateTokenKind::kName) continue;
    tree.reads_date = tree.reads_date || tokens[i].text == "strftime_now";
    tree.marks_generation =
        tree.marks_generation || (tokens[i].text == "generation" && i > 0 &&
                                  tokens[i - 1].kind == TemplateTokenKind::kStatement);
  }
  tree.statements = parse_template(std::move(tokens));
  tree.date = date;
  tree_ = std::make_shared<const Tree>(std::move(tree));
}

RenderedChat ChatTemplate::render_spans(const nlohmann::ordered_json& variables) const {
  return run_template(tree_->statements, variables, tree_->date);
}

bool ChatTemplate::marks_generation() const {
  return tree_->marks_generation;
}

bool ChatTemplate::reads_date() const {
  return tree_->reads_date;
}

namespace {

/// Templates by their names.
using NamedTemplates = std::map<std::string, std::string>;

std::string template_file(const std::filesystem::path& path) {
  const SharedBytes file = map_file(path.string());
  return std::string(as_text(file.view));
}

/// chat_template.jinja, and additional_chat_templates/NAME.jinja.
NamedTemplates templates_in_files(const std::filesystem::path& folder) {
  NamedTemplates found;
  const auto own = folder / "chat_template.jinja", more = folder / "additional_chat_templates";
  if (std::filesystem::exists(own)) found["default"] = template_file(own);
  if (!std::filesystem::is_directory(more)) return found;
  for (const auto& entry : std::filesystem::directory_iterator(more)) {
    if (entry.path().extension() != ".jinja") continue;
    found[entry.path().stem().string()] = template_file(entry.path());
  }
  return found;
}

/// `chat_template` of a tokenizer_config.json: a text, a list of names and templates, or an object.
NamedTemplates templates_in_config(const JsonNode& file) {
  NamedTemplates found;
  const JsonNode node = file.find("chat_template");
  if (node.is_null()) return found;
  if (node.is_text()) {
    found["default"] = node.text();
  } else if (node.is_object()) {
    for (const auto& [name, value] : node.json().items()) found[name] = node.at(name).text();
  } else {
    for (const JsonNode& item : node.items()) {
      found[item.at("name").text()] = item.at("template").text();
    }
  }
  if (!found.contains("default")) node.refuse("has no template named 'default'");
  return found;
}

/// Without its last line break, which Jinja does not render.
std::string template_body(std::string source) {
  if (source.ends_with('\n')) source.pop_back();
  return source;
}

bool has_generation_blocks(const std::string& source) {
  try {
    return ChatTemplate(source).marks_generation();
  } catch (const FormatError&) {
    return false;  // refused when it is used
  }
}

/// The one named "default", but "tool_use" for conversations with tools, as in transformers.
std::string joined_templates(const NamedTemplates& templates) {
  const std::string& usual = templates.at("default");
  const auto tools = templates.find("tool_use");
  if (tools == templates.end() || tools->second == usual) return usual;
  if (has_generation_blocks(usual) != has_generation_blocks(tools->second)) {
    throw FormatError(
        "only one of its chat templates 'default' and 'tool_use' has generation blocks");
  }
  return "{%+ if tools is not defined or tools is none +%}" + template_body(usual) +
         "{%+ else +%}" + template_body(tools->second) + "{%+ endif +%}";
}

}  // namespace

std::optional<std::string> find_chat_template(const std::filesystem::path& path) {
  const auto folder = std::filesystem::is_directory(path) ? path : path.parent_path();
  const auto config = folder / "tokenizer_config.json";
  NamedTemplates found = templates_in_files(folder);
  if (!found.empty() && !found.contains("default")) {
    throw DataError(text("'{}' has templates in 'additional_chat_templates', but none is named "
                         "'default'",
                         folder.string()),
                    "write one to 'chat_template.jinja'");
  }
  if (found.empty() && std::filesystem::exists(config)) {
    read_json_file(
        config, [&](const JsonNode& file, std::string_view) { found = templates_in_config(file); });
  }
  if (found.empty()) return std::nullopt;
  try {
    return joined_templates(found);
  } catch (const FormatError& error) {
    throw DataError(text("'{}': {}", folder.string(), error.what()),
                    "name a file in 'chat_template'");
  }
}

}  // namespace accel
