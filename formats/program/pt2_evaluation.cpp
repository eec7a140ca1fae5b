// Conversion of a training program to evaluation.
#include <algorithm>
#include <set>

#include "formats/program/pt2.h"

namespace accel {
namespace {

constexpr std::string_view kCounts = "num_batches_tracked";

const Pt2Argument* argument_named(const Pt2Node& node, std::string_view name) {
  for (const auto& [own, argument] : node.arguments) {
    if (own == name) return &argument;
  }
  return nullptr;
}

/// A norm without running statistics uses those of the batch in evaluation, too.
bool lacks_statistics(const Pt2Node& node) {
  const Pt2Argument* mean = argument_named(node, "running_mean");
  return mean && mean->as<std::monostate>();
}

Pt2Graph evaluating(const Pt2Graph& graph);

Pt2Node evaluating(Pt2Node node) {
  const bool own_statistics = lacks_statistics(node);
  for (auto& [name, argument] : node.arguments) {
    if (const auto* inner = argument.as<std::shared_ptr<const Pt2Graph>>()) {
      argument.value = std::make_shared<const Pt2Graph>(evaluating(**inner));
    }
    const bool flag = name == "train" || name == "training" || name == "use_input_stats";
    if (flag && argument.as<bool>() && !own_statistics) argument.value = false;
    if (name == "dropout_p" && argument.as<double>()) argument.value = 0.0;
  }
  return node;
}

Pt2Graph evaluating(const Pt2Graph& graph) {
  Pt2Graph out = graph;
  for (Pt2Node& node : out.nodes) node = evaluating(std::move(node));
  return out;
}

}  // namespace

Pt2Program evaluation_of(const Pt2Program& program) {
  std::set<size_t> counts;
  for (const Pt2Input& input : program.inputs) {
    const auto* slot = input.value.as<Pt2Slot>();
    if (slot && input.kind == Pt2Input::Kind::kBuffer && input.name.ends_with(kCounts)) {
      counts.insert(slot->index);
    }
  }
  Pt2Program out = program;
  out.graph = evaluating(program.graph);
  std::erase_if(out.graph.nodes, [&counts](const Pt2Node& node) {
    if (node.target != "torch.ops.aten.add_.Tensor" || node.arguments.empty()) return false;
    const auto* slot = node.arguments[0].second.as<Pt2Slot>();
    return slot && counts.contains(slot->index);
  });
  return out;
}

}  // namespace accel
