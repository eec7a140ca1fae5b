#include "parallel/split_backward.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace accel {

// Types of members of SplitBackward::Graph, which has external linkage.
namespace split_backward {

/// The gradients that arrive at a node in the first half.
struct Arrived {
  bool is_recording = true;
  torch::autograd::variable_list gradients;
};

/// An operator and the weights that only it uses.
struct WeightGroup {
  std::shared_ptr<torch::autograd::Node> node;
  torch::autograd::edge_list weights;
  std::shared_ptr<Arrived> arrived = std::make_shared<Arrived>();
};

}  // namespace split_backward

namespace {

using split_backward::Arrived;
using split_backward::WeightGroup;

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::edge_list;
using GraphNode = torch::autograd::Node;
using torch::autograd::variable_list;

class RecordArrived final : public torch::autograd::FunctionPreHook {
 public:
  explicit RecordArrived(std::shared_ptr<Arrived> to) : to_(std::move(to)) {}
  variable_list operator()(const variable_list& gradients) override {
    if (to_->is_recording) to_->gradients = gradients;
    return gradients;
  }

 private:
  std::shared_ptr<Arrived> to_;
};

variable_list execute(const edge_list& roots, const variable_list& gradients, bool keep_graph,
                      const edge_list& outputs, bool accumulate) {
  return torch::autograd::Engine::get_default_engine().execute(
      roots, gradients, keep_graph, /*create_graph=*/false, accumulate, outputs);
}

/// Finds the nodes of a graph on the way to `target`.
class PathsTo {
 public:
  PathsTo(GraphNode* root, GraphNode* target) : target_(target) {
    std::vector<std::pair<GraphNode*, size_t>> path = {{root, 0}};
    while (!path.empty()) {
      auto& [node, next] = path.back();
      if (next == 0 && !visited_.insert(node).second) {
        path.pop_back();
        continue;
      }
      if (node == target_ || next == node->num_outputs()) {
        leave(node);
        path.pop_back();
        continue;
      }
      GraphNode* const child = node->next_edge(next++).function.get();
      if (child && !visited_.contains(child)) path.emplace_back(child, 0);
    }
  }

  bool contains(GraphNode* node) const { return on_path_.contains(node); }
  /// Those that contain() knows, the root first where it is one.
  const std::vector<GraphNode*>& nodes() const { return nodes_; }

 private:
  void leave(GraphNode* node) {
    bool leads = node == target_;
    for (const Edge& edge : node->next_edges()) leads = leads || contains(edge.function.get());
    if (leads && on_path_.insert(node).second) nodes_.push_back(node);
  }

  GraphNode* target_;
  std::unordered_set<GraphNode*> visited_, on_path_;
  std::vector<GraphNode*> nodes_;
};

/// Adds the leaves below an edge.
void collect_leaves(const Edge& from, edge_list& leaves) {
  std::unordered_set<GraphNode*> seen;
  std::vector<std::shared_ptr<GraphNode>> left = {from.function};
  while (!left.empty()) {
    const std::shared_ptr<GraphNode> node = std::move(left.back());
    left.pop_back();
    if (!node || !seen.insert(node.get()).second) continue;
    if (dynamic_cast<AccumulateGrad*>(node.get())) {
      leaves.emplace_back(node, 0);
      continue;
    }
    for (const Edge& edge : node->next_edges()) left.push_back(edge.function);
  }
}

bool is_leaf(const Edge& edge) {
  return dynamic_cast<AccumulateGrad*>(edge.function.get()) != nullptr;
}

}  // namespace

struct SplitBackward::Graph {
  std::vector<WeightGroup> groups;
  Edge whole;           ///< the output, where the input needs no gradient; else null
  Edge input;           ///< with leaves below it, or null
  at::Tensor gradient;  ///< of the input, or of `whole`
  edge_list below;      ///< the leaves below the input

  void add_groups(const PathsTo& paths, GraphNode* target) {
    for (GraphNode* const node : paths.nodes()) {
      if (node == target) continue;
      edge_list weights;
      for (const Edge& edge : node->next_edges()) {
        if (edge.function && !paths.contains(edge.function.get())) collect_leaves(edge, weights);
      }
      if (weights.empty()) continue;
      WeightGroup& group = groups.emplace_back(WeightGroup{node->getptr(), std::move(weights)});
      node->add_pre_hook(std::make_unique<RecordArrived>(group.arrived));
    }
  }
};

SplitBackward::SplitBackward() = default;
SplitBackward::~SplitBackward() = default;
SplitBackward::SplitBackward(SplitBackward&&) noexcept = default;
SplitBackward& SplitBackward::operator=(SplitBackward&&) noexcept = default;

at::Tensor SplitBackward::run_input(const at::Tensor& output, const at::Tensor& gradient,
                                    const at::Tensor& input) {
  graph_ = std::make_unique<Graph>();
  const Edge root = torch::autograd::impl::gradient_edge(output);
  const variable_list gradients = {gradient.defined() ? gradient : at::ones_like(output)};
  if (!input.requires_grad()) {
    graph_->whole = root;
    graph_->gradient = gradients.front();
    return {};
  }
  const Edge target = torch::autograd::impl::gradient_edge(input);
  const PathsTo paths(root.function.get(), target.function.get());
  graph_->add_groups(paths, target.function.get());
  if (!is_leaf(target)) {
    graph_->input = target;
    collect_leaves({target.function, 0}, graph_->below);
  }
  if (!paths.contains(target.function.get())) return {};
  const at::Tensor found =
      execute({root}, gradients, /*keep_graph=*/true, {target}, /*accumulate=*/false).front();
  for (const WeightGroup& group : graph_->groups) group.arrived->is_recording = false;
  graph_->gradient = found;
  return found;
}

void SplitBackward::run_weights() {
  const std::unique_ptr<Graph> graph = std::move(graph_);
  if (!graph) return;
  if (graph->whole.function) {
    execute({graph->whole}, {graph->gradient}, false, {}, true);
    return;
  }
  for (const WeightGroup& group : graph->groups) {
    edge_list roots;
    variable_list gradients;
    for (size_t i = 0; i < group.arrived->gradients.size(); ++i) {
      if (!group.arrived->gradients[i].defined()) continue;
      roots.emplace_back(group.node, static_cast<uint32_t>(i));
      gradients.push_back(group.arrived->gradients[i]);
    }
    if (!roots.empty()) execute(roots, gradients, false, group.weights, true);
  }
  if (graph->below.empty() || !graph->gradient.defined()) return;
  execute({graph->input}, {graph->gradient}, false, graph->below, true);
}

}  // namespace accel
