// What tests/interop/make_golden_optim.py wrote, and the tensors it worked on.
#pragma once

#include <ATen/ops/tensor.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/api/batch.h"

namespace accel {

inline nlohmann::json read_golden(const std::string& name) {
  const char* source = std::getenv("ACCEL_SOURCE_DIR");
  const std::string path = std::string(source ? source : ".") + "/tests/interop/golden/" + name;
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read '" + path + "'");
  return nlohmann::json::parse(file);
}

/// The script's fill(): multiples of 1/64 in [-0.75, 0.75].
inline at::Tensor golden_fill(const std::vector<int64_t>& shape, int64_t seed) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>((i * 37 + seed * 101) % 97 - 48) / 64);
  }
  return at::tensor(values).reshape(shape);
}

/// The parameters that the script trains, freshly filled, in its order.
inline std::vector<Parameter> golden_parameters() {
  const std::vector<std::pair<std::string, std::vector<int64_t>>> shapes = {
      {"embed.weight", {2, 3}},
      {"fc.weight", {4, 3}},
      {"fc.bias", {4}},
      {"conv.weight", {2, 2, 2, 1}}};
  std::vector<Parameter> parameters;
  for (const auto& [name, shape] : shapes) {
    const auto seed = static_cast<int64_t>(parameters.size());
    parameters.push_back({name, golden_fill(shape, seed).requires_grad_(true)});
  }
  return parameters;
}

inline std::vector<float> values_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().contiguous();
  const float* data = flat.const_data_ptr<float>();
  return {data, data + flat.numel()};
}

}  // namespace accel
