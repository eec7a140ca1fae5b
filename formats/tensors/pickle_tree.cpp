// Second half of pickle reading: from the graph of nodes to a tree of values.
#include <algorithm>

#include "formats/tensors/pickle_nodes.h"

namespace accel {
namespace {

constexpr int kMaxPickleDepth = 64;
constexpr size_t kShortText = 15;  // fits into std::string without an allocation

class TreeMaker {
 public:
  TreeMaker(const PickleNodes& nodes, MemoryBudget& budget) : nodes_(nodes), budget_(budget) {}

  Value tree(PickleId id, int depth) {
    if (depth >= kMaxPickleDepth)
      throw FormatError("the pickle is nested too deeply or has a cycle");
    const PickleNode& node = nodes_[id];
    return std::visit([&](const auto& data) { return make(data, node, depth + 1); }, node.data);
  }

 private:
  template <class T>
  Value make(const T& plain, const PickleNode&, int) {
    return plain;
  }
  Value make(std::string_view view, const PickleNode&, int) { return text(view); }
  Value make(PickleNode::List, const PickleNode& node, int depth) {
    return Value::List{trees(node.children, depth)};
  }
  Value make(PickleNode::Tuple, const PickleNode& node, int depth) {
    return Value::Tuple{trees(node.children, depth)};
  }
  Value make(PickleNode::Persistent, const PickleNode& node, int depth) {
    return Value::Persistent{trees(nodes_[node.children[0]].children, depth)};
  }
  Value make(const PickleNode::Global& named, const PickleNode&, int) { return global(named); }

  Value make(PickleNode::Dict, const PickleNode& node, int depth) {
    Value::Dict out;
    budget_.take(node.children.size() * sizeof(Value));
    out.items.reserve(node.children.size() / 2);
    for (size_t i = 0; i + 1 < node.children.size(); i += 2) {
      Value key = tree(node.children[i], depth);
      out.items.emplace_back(std::move(key), tree(node.children[i + 1], depth));
    }
    return out;
  }

  Value make(PickleNode::Call, const PickleNode& node, int depth) {
    Value::Call out;
    out.callable = global(*nodes_[node.children[0]].as<PickleNode::Global>());
    out.arguments = trees(nodes_[node.children[1]].children, depth);
    if (node.children.size() > 2) out.state = trees({node.children[2]}, depth);
    return out;
  }

  std::vector<Value> trees(const std::vector<PickleId>& ids, int depth) {
    budget_.take(ids.size() * sizeof(Value));
    std::vector<Value> out;
    out.reserve(ids.size());
    for (const PickleId id : ids) out.push_back(tree(id, depth));
    return out;
  }

  std::string text(std::string_view view) {
    if (view.size() > kShortText) budget_.take(view.size() + 1);
    return std::string(view);
  }

  Value::Global global(const PickleNode::Global& named) {
    return {text(named.module), text(named.name)};
  }

  const PickleNodes& nodes_;
  MemoryBudget& budget_;
};

}  // namespace

Value pickle_tree(const PickleNodes& nodes, PickleId root, MemoryBudget& budget) {
  return TreeMaker(nodes, budget).tree(root, 0);
}

const Value* Value::find(std::string_view key) const {
  const auto* dict = as<Dict>();
  if (!dict) return nullptr;
  const auto found = std::find_if(dict->items.rbegin(), dict->items.rend(), [&](const auto& item) {
    const auto* name = item.first.template as<std::string>();
    return name && *name == key;
  });
  return found == dict->items.rend() ? nullptr : &found->second;
}

}  // namespace accel
