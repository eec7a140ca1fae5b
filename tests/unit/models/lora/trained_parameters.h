// Parameters of a small language model with adapters.
#pragma once

#include <stdexcept>
#include <string>

#include "core/api/model.h"
#include "models/layers/module_state.h"

namespace accel {

/// Samples of five tokens of seven.
inline ModelContext five_tokens() {
  ModelContext context;
  context.data.input = {5};
  context.data.input_type = DType::kI64;
  context.data.target = {5};
  context.data.vocab = 7;
  return context;
}

/// Names of the parameters with a gradient.
inline std::string trained_parameters(Model& model) {
  std::string out;
  for (const Parameter& item : parameters_of(model)) {
    if (item.local.requires_grad()) out += (out.empty() ? "" : " ") + item.name;
  }
  return out;
}

inline at::Tensor parameter_named(Model& model, const std::string& name) {
  for (const Parameter& item : parameters_of(model)) {
    if (item.name == name) return item.local.detach();
  }
  throw std::logic_error("no '" + name + "'");
}

}  // namespace accel
