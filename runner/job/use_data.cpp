#include "runner/job/use_data.h"

#include <algorithm>

#include "core/codec.h"
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
                  const DataShape& trained) {
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
    if (path.size() == 1 && path[0] == "path") drop(dataset, {"from", "to", "limit", "weight"});
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
