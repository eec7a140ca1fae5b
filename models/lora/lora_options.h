// The `lora` section of a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/recipe/registry.h"

namespace accel {

/// Names and meanings are PEFT's.
struct LoraOptions {
  int64_t rank = 0;  ///< 0: no adapter
  Auto<double> alpha;
  double dropout = 0.0;
  bool rslora = false;
  std::vector<std::string> target_modules = {"*"};
  Auto<std::vector<std::string>> modules_to_save;
  FilePath adapter;

  static Schema<LoraOptions> schema();

  /// Factor of the adapter's product.
  double scale() const;
};

/// The adapter options of a resolved model; none without an adapter.
std::optional<LoraOptions> lora_of(const Node& model_options);

}  // namespace accel
