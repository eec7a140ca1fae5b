#include "models/placement/model_tree.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <map>

#include "core/api/block.h"
#include "core/api/model.h"
#include "models/placement/module_sizes.h"

namespace accel {
namespace {

class TreeBuilder {
 public:
  PlacedModel build(torch::nn::Module& root) {
    PlacedModel out;
    out.root = visit(root, "");
    for (auto& [tensor, names] : names_) {
      if (names.size() > 1) out.tied.push_back(std::move(names));
    }
    std::sort(out.tied.begin(), out.tied.end());
    out.no_split_module_classes = std::move(blocks_);
    return out;
  }

 private:
  ModuleTree visit(torch::nn::Module& module, const std::string& name) {
    ModuleTree tree;
    tree.type = module.name();
    if (dynamic_cast<Block*>(&module)) blocks_.push_back(tree.type);
    for (const auto& item : module.named_parameters(false)) {
      tree.parameters.push_back(tensor_of(item.key(), item.value(), name));
    }
    for (const auto& item : module.named_buffers(false)) {
      tree.buffers.push_back(tensor_of(item.key(), item.value(), name));
    }
    for (const auto& child : module.named_children()) {
      ModuleTree part = visit(*child.value(), full_name(name, child.key()));
      if (ModuleTree::Tensor* const weight = parameter_named(tree, child.key())) {
        for (const ModuleTree::Tensor& scales : part.parameters) weight->bytes += scales.bytes;
        continue;
      }
      tree.children.push_back({child.key(), std::move(part)});
    }
    return tree;
  }

  /// The quantized weight whose scales a module of this name has; null: there is none.
  static ModuleTree::Tensor* parameter_named(ModuleTree& tree, const std::string& name) {
    const auto found =
        std::find_if(tree.parameters.begin(), tree.parameters.end(),
                     [&](const ModuleTree::Tensor& item) { return item.name == name; });
    return found == tree.parameters.end() ? nullptr : &*found;
  }

  ModuleTree::Tensor tensor_of(const std::string& own, const at::Tensor& tensor,
                               const std::string& module) {
    auto& names = names_[tensor.unsafeGetTensorImpl()];
    names.push_back(full_name(module, own));
    const bool is_alias = names.size() > 1;
    return {own, is_alias ? 0 : static_cast<int64_t>(tensor.nbytes()), is_alias};
  }

  std::map<const void*, std::vector<std::string>> names_;
  std::vector<std::string> blocks_;
};

}  // namespace

PlacedModel placed_model(Model& model) {
  return TreeBuilder().build(model.module());
}

}  // namespace accel
