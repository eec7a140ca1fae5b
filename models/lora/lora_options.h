// The `lora` section of a model.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/registry.h"

namespace accel {

enum class LoraBias { kNone, kAll, kLoraOnly };

template <>
struct EnumNames<LoraBias> {
  static constexpr std::pair<LoraBias, const char*> kValues[] = {
      {LoraBias::kNone, "none"}, {LoraBias::kAll, "all"}, {LoraBias::kLoraOnly, "lora_only"}};
};

enum class LoraInit { kDefault, kGaussian, kPissa, kOlora };

template <>
struct EnumNames<LoraInit> {
  static constexpr std::pair<LoraInit, const char*> kValues[] = {{LoraInit::kDefault, "default"},
                                                                 {LoraInit::kGaussian, "gaussian"},
                                                                 {LoraInit::kPissa, "pissa"},
                                                                 {LoraInit::kOlora, "olora"}};
};

/// Names and meanings are PEFT's.
struct LoraOptions {
  int64_t rank = 0;  ///< 0: no adapter
  Auto<double> alpha;
  double dropout = 0.0;
  bool rslora = false;
  std::vector<std::string> target_modules = {"*"};
  Auto<std::vector<std::string>> modules_to_save;
  std::map<std::string, int64_t> rank_pattern;
  std::map<std::string, double> alpha_pattern;
  bool dora = false;
  LoraBias bias = LoraBias::kNone;
  bool lora_bias = false;
  LoraInit init = LoraInit::kDefault;
  FilePath adapter;

  static Schema<LoraOptions> schema();

  /// Factor of the adapter's product.
  double scale() const;
  /// With the rank and alpha of one layer. Throws Error (kRecipe) for patterns that contradict each
  /// other.
  LoraOptions for_layer(const std::string& name) const;
};

/// The adapter options of a resolved model; none without an adapter.
std::optional<LoraOptions> lora_of(const Node& model_options);

}  // namespace accel
