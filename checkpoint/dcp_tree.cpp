#include "checkpoint/dcp_tree.h"

#include <algorithm>
#include <utility>

#include "core/base/format_error.h"

namespace accel {
namespace {

/// Names each leaf of a state_dict by its path. Lists are leaves, except lists of dicts, as in
/// torch.distributed.checkpoint.
void flatten(const Value& value, DcpPath path, DcpState& out) {
  const auto* dict = value.as<Value::Dict>();
  const auto* list = value.as<Value::List>();
  if (dict && !dict->items.empty()) {
    for (const auto& [key, item] : dict->items) {
      DcpPath below = path;
      below.push_back(key);
      flatten(item, std::move(below), out);
    }
    return;
  }
  if (list && !list->items.empty() && list->items.front().as<Value::Dict>()) {
    for (size_t i = 0; i < list->items.size(); ++i) {
      DcpPath below = path;
      below.emplace_back(static_cast<int64_t>(i));
      flatten(list->items[i], std::move(below), out);
    }
    return;
  }
  std::string name;
  for (const Value& step : path) {
    const auto* key = step.as<std::string>();
    name += (name.empty() ? "" : ".") + (key ? *key : std::to_string(*step.as<int64_t>()));
  }
  if (const auto* array = value.as<Array>()) {
    out.tensors.push_back({name, *array});
  } else {
    out.objects.emplace_back(name, value);
  }
  out.paths[name] = std::move(path);
}

/// The value at `path` in `root`, created when missing. Integers index lists.
Value& dcp_value_at(Value& root, const DcpPath& path) {
  constexpr int64_t kMaxItems = 1 << 20;
  Value* at = &root;
  for (const Value& step : path) {
    if (const auto* index = step.as<int64_t>()) {
      if (at->as<Value::None>()) *at = Value::List();
      auto* list = std::get_if<Value::List>(&at->data);
      if (!list || *index < 0 || *index > kMaxItems) throw FormatError("its names are not a tree");
      const auto wanted = static_cast<size_t>(*index) + 1;
      if (list->items.size() < wanted) list->items.resize(wanted);
      at = &list->items[wanted - 1];
      continue;
    }
    if (at->as<Value::None>()) *at = Value::Dict();
    auto* dict = std::get_if<Value::Dict>(&at->data);
    const auto* key = step.as<std::string>();
    if (!dict || !key) throw FormatError("its names are not a tree");
    const auto found = std::find_if(dict->items.begin(), dict->items.end(), [&](const auto& item) {
      const auto* name = item.first.template as<std::string>();
      return name && *name == *key;
    });
    if (found != dict->items.end()) {
      at = &found->second;
    } else {
      at = &dict->items.emplace_back(*key, Value()).second;
    }
  }
  return *at;
}

}  // namespace

DcpState dcp_of(const std::string& top, const Value& tree) {
  DcpState out;
  flatten(tree, {top}, out);
  return out;
}

Value optimizer_of_dcp(const DcpState& state) {
  Value tree;
  const auto put = [&](const std::string& name, Value value) {
    const auto path = state.paths.find(name);
    dcp_value_at(tree, path == state.paths.end() ? DcpPath{name} : path->second) = std::move(value);
  };
  for (const auto& [name, array] : state.tensors) put(name, array);
  for (const auto& [name, value] : state.objects) put(name, value);
  const Value* optimizer = tree.find("optimizer");
  return optimizer ? *optimizer : tree;
}

}  // namespace accel
