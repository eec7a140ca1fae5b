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
  size_t start = 0;  // of the value's line
  for (int i = 1; i < node.where.line; ++i) start = source->text.find('\n', start) + 1;
  const std::string line = source->text.substr(start, source->text.find('\n', start) - start);
  constexpr std::string_view kComment = " # ";
  const size_t comment = line.rfind(kComment);
  // A line without a comment was written by hand.
  return comment == line.npos ? origin_of(node) : line.substr(comment + kComment.size());
}

Node parse_saved_recipe(const std::string& path, const std::string& text,
                        const Registry& registry) {
  return with_current_names(parse_recipe(path, text), registry);
}

}  // namespace accel
