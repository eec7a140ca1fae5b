#include "train/recipe/saved_recipe.h"

#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "core/recipe/deprecated_names.h"
#include "train/recipe/recipe.h"

namespace accel {
namespace {

void replace_in_dataset(Node& dataset) {
  // Only a resolved entry has `weight` beside `limit` in a single dataset.
  Node::Entry* limit = dataset.find("limit");
  if (limit && dataset.find("weight") && !dataset.find("head")) limit->key = "head";
  if (Node::Map* options = dataset.map()) {
    std::erase_if(*options, [](const Node::Entry& option) {
      return option.key == "prompt" && option.node.scalar() && option.node.scalar()->text.empty();
    });
  }
}

std::string line_at(const std::string& text, int number) {
  size_t start = 0;
  for (int i = 1; i < number; ++i) start = text.find('\n', start) + 1;
  return text.substr(start, text.find('\n', start) - start);
}

bool is_item(const std::string& line) {
  const size_t first = line.find_first_not_of(' ');
  return first != line.npos && line.compare(first, 2, "- ") == 0;
}

}  // namespace

void replace_old_values(Node& recipe) {
  Node::Entry* data = recipe.find("data");
  for (const char* section : {"train", "eval"}) {
    Node::Entry* entry = data ? data->node.find(section) : nullptr;
    if (!entry) continue;
    if (Node::List* list = entry->node.list()) {
      for (Node& dataset : *list) replace_in_dataset(dataset);
    } else {
      replace_in_dataset(entry->node);
    }
  }
}

Node with_current_names(Node recipe, const Registry& registry) {
  Diagnostics unsaid;
  DeprecatedNames(RecipeOptions::schema().info(), registry).replace(recipe, unsaid);
  replace_old_values(recipe);
  return recipe;
}

std::string origin_through(const Node& node, const std::string& saved) {
  const Source* source = node.where.source.get();
  if (!source || source->kind != Source::Kind::kFile) return origin_of(node);
  const auto path = std::filesystem::absolute(source->path).lexically_normal();
  if (path != std::filesystem::path(saved).lexically_normal()) return origin_of(node);
  constexpr std::string_view kComment = " # ";
  int number = node.where.line;
  std::string line = line_at(source->text, number);
  // A long list has the comment before its items.
  while (number > 1 && is_item(line) && line.find(kComment) == line.npos) {
    line = line_at(source->text, --number);
  }
  const size_t comment = line.rfind(kComment);
  // A line without a comment was written by hand.
  return comment == line.npos ? origin_of(node) : line.substr(comment + kComment.size());
}

Node parse_saved_recipe(const std::string& path, const std::string& text,
                        const Registry& registry) {
  return with_current_names(parse_recipe(path, text), registry);
}

}  // namespace accel
