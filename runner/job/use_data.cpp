#include "runner/job/use_data.h"

#include <algorithm>
#include <filesystem>

#include "core/codec.h"
#include "core/dataset.h"
#include "core/error.h"
#include "core/override.h"

namespace accel {
namespace {

/// Null for a section that is missing or has no dataset.
const Node* first_in(const Node& recipe, const char* section) {
  const Node::Entry* data = recipe.find("data");
  const Node::Entry* parts = data ? data->node.find(section) : nullptr;
  if (!parts || parts->node.null()) return nullptr;
  const Node::List* list = parts->node.list();
  if (!list) return &parts->node;
  return list->empty() ? nullptr : &list->front();
}

void drop(Node& section, std::initializer_list<const char*> keys) {
  std::erase_if(*section.map(), [&](const Node::Entry& entry) {
    return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return entry.key == key; });
  });
}

/// Drops what says which part of the data the recipe takes: of another folder, and of a file.
void take_whole(Node& dataset, const Node& path) {
  drop(dataset, {"from", "to", "limit", "weight"});
  std::error_code none;
  const bool is_file = path.scalar() && std::filesystem::is_regular_file(path.scalar()->text, none);
  if (is_file) drop(dataset, {"config", "split", "files"});
}

/// Drops the options that the type does not have; of a type that is unknown it is told later.
void change_type(Node& dataset, const Node& type, const Registry& registry) {
  const auto& items = registry.of<Dataset>().items();
  const auto found = type.scalar() ? items.find(type.scalar()->text) : items.end();
  if (found == items.end()) return;
  const std::vector<FieldInfo>& fields = found->second.fields;
  std::erase_if(*dataset.map(), [&](const Node::Entry& entry) {
    return std::none_of(fields.begin(), fields.end(),
                        [&](const FieldInfo& field) { return field.name == entry.key; });
  });
  dataset.map()->insert(dataset.map()->begin(), {"type", {}, type});
}

/// A dataset that found its labels would find others in other data.
void fix_labels(Node& dataset, const DataShape& trained) {
  Node::Entry* labels = dataset.find("labels");
  const bool open =
      labels && (labels->node.null() || (labels->node.list() && labels->node.list()->empty()));
  if (open && trained.classes > 0 && !trained.labels.empty()) {
    labels->node = Codec<std::vector<std::string>>::write(trained.labels);
  }
}

}  // namespace

Node dataset_with(const Node& recipe, const std::vector<std::string>& words,
                  const DataShape& trained, const Registry& registry) {
  const Node* eval = first_in(recipe, "eval");
  const Node* found = eval ? eval : first_in(recipe, "train");
  Node dataset = found && found->map() ? *found : Node{Node::Map{}, {}};
  Diagnostics problems;
  History history;
  Merging merging{history, problems};
  std::vector<Override> overrides;
  int number = 0;
  for (const std::string& word : words) {
    overrides.push_back(parse_override(word, ++number, problems));
    const std::vector<std::string>& path = overrides.back().path;
    if (path.size() != 1) continue;
    if (path[0] == "path") take_whole(dataset, overrides.back().value);
    if (path[0] == "type") change_type(dataset, overrides.back().value, registry);
  }
  problems.check();
  fix_labels(dataset, trained);
  apply_overrides(dataset, std::move(overrides), merging);
  problems.check();
  return dataset;
}

Node with_eval_data(Node recipe, Node dataset) {
  Node* data = &recipe.find("data")->node;
  if (Node::Entry* eval = data->find("eval")) {
    eval->node = std::move(dataset);
  } else {
    data->map()->push_back({"eval", {}, std::move(dataset)});
  }
  return recipe;
}

}  // namespace accel
