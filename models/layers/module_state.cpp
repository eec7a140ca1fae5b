#include "models/layers/module_state.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/api/block.h"
#include "core/api/model.h"
#include "core/base/text.h"
#include "core/recipe/name_pattern.h"
#include "models/layers/adapted_linear.h"

namespace accel {
namespace {

template <class Dict>
std::vector<Parameter> once_each(const Dict& tensors) {
  std::vector<Parameter> out;
  std::set<const void*> seen;
  for (const auto& item : tensors) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) {
      out.push_back({item.key(), item.value()});
    }
  }
  return out;
}

bool is_frozen_batch_norm(torch::nn::Module& module) {
  const bool is_norm = module.as<torch::nn::BatchNorm1d>() || module.as<torch::nn::BatchNorm2d>() ||
                       module.as<torch::nn::BatchNorm3d>();
  if (!is_norm || module.parameters(false).empty()) return false;
  for (const at::Tensor& parameter : module.parameters(false)) {
    if (parameter.requires_grad()) return false;
  }
  return true;
}

}  // namespace

std::vector<Parameter> parameters_of(Model& model) {
  return once_each(model.module().named_parameters());
}

std::vector<Parameter> buffers_of(Model& model) {
  return once_each(model.module().named_buffers());
}

std::vector<BlockParameters> blocks_of(Model& model) {
  std::vector<BlockParameters> blocks;
  std::vector<std::string> prefixes;  // of their parameters' names
  for (const auto& item : model.module().named_modules("", false)) {
    auto* block = dynamic_cast<Block*>(item.value().get());
    if (!block) continue;
    const bool inside = std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& prefix) {
      return item.key().starts_with(prefix);
    });
    if (inside) continue;
    blocks.push_back({block, {}});
    prefixes.push_back(item.key() + ".");
  }
  // The number of the block of each name, or of none: a tied parameter has several names.
  std::map<const void*, std::set<size_t>> users;
  const auto all = model.module().named_parameters();
  const auto block_of = [&](const std::string& name) {
    const auto found = std::find_if(prefixes.begin(), prefixes.end(),
                                    [&](const auto& prefix) { return name.starts_with(prefix); });
    return static_cast<size_t>(found - prefixes.begin());
  };
  for (const auto& item : all) {
    users[item.value().unsafeGetTensorImpl()].insert(block_of(item.key()));
  }
  for (Parameter& item : once_each(all)) {
    const std::set<size_t>& found = users.at(item.local.unsafeGetTensorImpl());
    if (found.size() > 1 || *found.begin() == blocks.size()) continue;
    blocks[*found.begin()].parameters.push_back(std::move(item));
  }
  std::erase_if(blocks, [](const BlockParameters& item) { return item.parameters.empty(); });
  return blocks;
}

namespace {

/// The weight that autocast casts, or an undefined tensor.
at::Tensor autocast_weight_of(const torch::nn::Module& module) {
  const auto weight = [&]<class Layer>() {
    const auto* layer = dynamic_cast<const Layer*>(&module);
    return layer ? layer->weight : at::Tensor();
  };
  for (const at::Tensor& found :
       {weight.operator()<torch::nn::LinearImpl>(), weight.operator()<torch::nn::Conv1dImpl>(),
        weight.operator()<torch::nn::Conv2dImpl>(), weight.operator()<torch::nn::Conv3dImpl>(),
        weight.operator()<torch::nn::ConvTranspose1dImpl>(),
        weight.operator()<torch::nn::ConvTranspose2dImpl>(),
        weight.operator()<torch::nn::ConvTranspose3dImpl>()}) {
    if (found.defined()) return found;
  }
  return {};
}

}  // namespace

std::vector<std::string> autocast_weights_of(Model& model) {
  std::map<const void*, bool> is_cast;
  for (const auto& module : model.module().modules()) {
    const at::Tensor weight = autocast_weight_of(*module);
    for (const at::Tensor& parameter : module->parameters(false)) {
      const auto found = is_cast.emplace(parameter.unsafeGetTensorImpl(), true).first;
      found->second = found->second && parameter.is_same(weight);
    }
  }
  for (const auto& module : model.module().modules()) {
    const auto* layer = dynamic_cast<const AdaptedLinearImpl*>(module.get());
    if (!layer || !layer->is_in_fp32()) continue;
    for (const at::Tensor& parameter : module->parameters()) {  // of its adapter too
      is_cast[parameter.unsafeGetTensorImpl()] = false;
    }
  }
  std::vector<std::string> names;
  for (const Parameter& item : parameters_of(model)) {
    if (is_cast.at(item.local.unsafeGetTensorImpl())) names.push_back(item.name);
  }
  return names;
}

void move_to(Model& model, at::Device device) {
  model.module().to(device);
}

void move_buffers_to(Model& model, at::Device device) {
  const c10::NoGradGuard no_grad;
  for (const at::Tensor& buffer : model.module().buffers()) buffer.set_data(buffer.to(device));
}

bool is_training(Model& model) {
  return model.module().is_training();
}

void set_training(Model& model, bool training) {
  model.module().train(training);
  if (!training) return;
  for (const auto& module : model.module().modules(false)) {
    if (is_frozen_batch_norm(*module)) module->eval();
  }
}

namespace {

std::vector<std::string> unfrozen_names(const std::vector<Parameter>& parameters) {
  std::vector<std::string> names;
  for (const Parameter& item : parameters) names.push_back(item.name);
  return names;
}

}  // namespace

void freeze_parameters(Model& model, const std::vector<std::string>& patterns, const Span& where) {
  if (patterns.empty()) return;
  const std::vector<Parameter> parameters = parameters_of(model);
  std::vector<at::Tensor> frozen;
  Diagnostics problems;
  for (const std::string& pattern : patterns) {
    const size_t before = frozen.size();
    for (const Parameter& item : parameters) {
      if (name_matches(pattern, item.name)) frozen.push_back(item.local);
    }
    if (frozen.size() > before) continue;
    const UnmatchedPattern unmatched = {pattern, "parameter", unfrozen_names(parameters)};
    problems.error(where, unmatched.message(), unmatched.hint());
  }
  problems.check();
  const bool some_left = std::any_of(parameters.begin(), parameters.end(), [&](const auto& item) {
    const auto same = [&](const at::Tensor& tensor) { return tensor.is_same(item.local); };
    return item.local.requires_grad() && std::none_of(frozen.begin(), frozen.end(), same);
  });
  if (!some_left) {
    throw RecipeError({{where, "'freeze' leaves no parameter to train",
                        text("narrow its patterns so that some of the {} parameters stay out",
                             parameters.size())}});
  }
  for (const at::Tensor& tensor : frozen) tensor.set_requires_grad(false);
  set_training(model, true);
}

}  // namespace accel
