// Second half of pickle reading: from the graph of nodes to a tree of values.
#include <algorithm>

#include "formats/tensors/pickle_nodes.h"

namespace accel {
namespace {

constexpr int kMaxPickleDepth = 64;
constexpr size_t kShortText = 15;  // fits into std::string without an allocation

class TreeMaker {
 public:
  TreeMaker(const PickleGraph& graph, const PickleRules& rules, MemoryBudget& budget)
      : graph_(graph), rules_(rules), budget_(budget) {}

  Value tree(PickleId id, int depth) {
    if (depth >= kMaxPickleDepth)
      throw FormatError("the pickle is nested too deeply or has a cycle");
    return std::visit([&](const auto& data) { return make(data, depth + 1); },
                      graph_.nodes[id].data);
  }

 private:
  template <class T>
  Value make(const T& plain, int) {
    return plain;
  }
  Value make(PickleNode::Text node, int) { return text(graph_.texts[node.index]); }
  Value make(PickleNode::Global node, int) { return global(node); }

  Value make(PickleNode::List node, int depth) {
    const std::vector<PickleId>& items = graph_.items[node.index];
    Value::List out;
    reserve(out.items, items.size());
    for (const PickleId id : items) out.items.push_back(tree(id, depth));
    return out;
  }
  Value make(PickleNode::Tuple node, int depth) { return Value::Tuple{members(node, depth)}; }
  Value make(PickleNode::Persistent node, int depth) {
    return Value::Persistent{members_of(node.tuple, depth)};
  }

  Value make(PickleNode::Dict node, int depth) {
    const std::vector<PickleId>& items = graph_.items[node.index];
    Value::Dict out;
    reserve(out.items, items.size() / 2);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      Value key = tree(items[i], depth);
      out.items.emplace_back(std::move(key), tree(items[i + 1], depth));
    }
    return out;
  }

  Value make(PickleNode::Call node, int depth) {
    const size_t left = budget_.left();
    const auto member = [&](uint32_t i) { return graph_.members[node.first + i]; };
    Value::Call call;
    call.callable = global(*graph_.nodes[member(0)].as<PickleNode::Global>());
    call.arguments = members_of(member(1), depth);
    if (const PickleId state = member(2); state != PickleGraph::kNoState) {
      reserve(call.state, 1);
      call.state.push_back(tree(state, depth));
    }
    if (!rules_.replace) return call;
    const size_t taken = left - budget_.left();
    Value value = rules_.replace(std::move(call));
    if (value.as<Array>()) budget_.give_back(taken);
    return value;
  }

  std::vector<Value> members_of(PickleId tuple, int depth) {
    return members(*graph_.nodes[tuple].as<PickleNode::Tuple>(), depth);
  }

  std::vector<Value> members(PickleNode::Tuple tuple, int depth) {
    std::vector<Value> out;
    reserve(out, tuple.count);
    for (uint32_t i = 0; i < tuple.count; ++i) {
      out.push_back(tree(graph_.members[tuple.first + i], depth));
    }
    return out;
  }

  template <class T>
  void reserve(std::vector<T>& values, size_t count) {
    budget_.take(count * sizeof(T));
    values.reserve(count);
  }

  std::string text(std::string_view view) {
    if (view.size() > kShortText) budget_.take(view.size() + 1);
    return std::string(view);
  }

  Value::Global global(PickleNode::Global node) {
    return {text(graph_.texts[node.module]), text(graph_.texts[node.module + 1])};
  }

  const PickleGraph& graph_;
  const PickleRules& rules_;
  MemoryBudget& budget_;
};

}  // namespace

Value pickle_tree(const PickleGraph& graph, PickleId root, const PickleRules& rules,
                  MemoryBudget& budget) {
  return TreeMaker(graph, rules, budget).tree(root, 0);
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
