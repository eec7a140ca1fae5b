// The `lora` section of a model: what a low-rank adapter is made of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/registry.h"

namespace accel {

struct HfNames;

/// PEFT's names and meanings where it has them.
struct LoraOptions {
  int64_t rank = 0;  ///< 0: no adapter
  Auto<double> alpha;
  double dropout = 0.0;
  bool rslora = false;
  std::vector<std::string> targets = {"*"};
  Auto<std::vector<std::string>> also;
  FilePath adapter;

  static Schema<LoraOptions> schema();

  /// What the product of an adapter's two matrices counts.
  double scale() const;
};

/// The options of the PEFT adapter that `given` names, over what `given` leaves open; `given`
/// itself when it names none. `node` is its section: what cannot be read or disagrees is reported
/// there.
LoraOptions with_adapter(const LoraOptions& given, const HfNames& names, const Node& node,
                         Reading& reading);

/// The adapter among the resolved options of a model; none when it has none.
std::optional<LoraOptions> lora_of(const Node& model_options);

}  // namespace accel
