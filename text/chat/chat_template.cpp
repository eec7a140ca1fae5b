#include "text/chat/chat_template.h"

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

std::optional<std::string> find_chat_template(const std::filesystem::path& path) {
  const auto folder = std::filesystem::is_directory(path) ? path : path.parent_path();
  const auto own = folder / "chat_template.jinja", config = folder / "tokenizer_config.json";
  if (std::filesystem::exists(own)) {
    const SharedBytes file = map_file(own.string());
    return std::string(reinterpret_cast<const char*>(file.view.data()), file.view.size());
  }
  std::optional<std::string> found;
  if (!std::filesystem::exists(config)) return found;
  read_json_file(config, [&](const JsonNode& file, std::string_view) {
    const JsonNode node = file.find("chat_template");
    if (node.is_null()) return;
    if (node.is_text()) {
      found = node.text();
      return;
    }
    for (const JsonNode& item : node.items()) {
      if (item.at("name").text() == "default") found = item.at("template").text();
    }
    if (!found) node.refuse("has no template named 'default'");
  });
  return found;
}

}  // namespace accel
