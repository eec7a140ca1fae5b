// Accelerate's options of fp8 as a layer of a recipe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compat/accelerate/accelerate_keys.h"

namespace accel {

/// An option of `fp8_config`, with a name without the prefix "fp8_".
struct Fp8Option {
  std::string_view name;
  std::string_view target;  ///< the recipe's option; "" where there is none
  bool is_switch = false;   ///< a flag without a value
};

/// All, those that only environment variables have included.
std::span<const Fp8Option> fp8_options();
/// The option of that name, with or without the prefix, or null.
const Fp8Option* find_fp8_option(std::string_view name);

/// Reads the options of one place into its layer.
class CompatFp8 {
 public:
  explicit CompatFp8(CompatLayer& layer) : layer_(layer) {}

  /// `shown` is the option with its value, for messages.
  void add(const Fp8Option& option, const Node& value, const std::string& shown);
  /// Sets the options that several values make. Call after the layer has its sharding.
  void finish();

 private:
  void set_backend(const Node& value, const std::string& shown);
  void set_format(const Node& value, const std::string& shown);
  void set_override(const Node& value, const std::string& shown);
  void add_override(const char* product, const Node& value, const std::string& shown);
  void set_gather();

  CompatLayer& layer_;
  Span gather_;              ///< of the option for the gather in fp8
  std::string gather_text_;  ///< that option with its value; "" without it
  Node::List overrides_;     ///< products that are not in fp8
  Span where_;               ///< of the last of them
};

}  // namespace accel
