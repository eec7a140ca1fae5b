// Names of other programs for components and for what a recipe expresses in another way. Options
// that have a counterpart declare its other names themselves (Schema::hint_for).
#pragma once

#include <string>

namespace accel {

/// What to write for the component `name` of another program: "write 'resnet' with 'depth: 18'".
/// Letter case, punctuation and a module such as "torch.optim." do not matter. "" if unknown.
std::string other_component_hint(const std::string& kind, const std::string& name);

/// The same for a key that no option here corresponds to: "leave it out: ...".
std::string other_key_hint(const std::string& key);

/// The same for a value of another program of the option here: "write 'ring'".
std::string other_value_hint(const std::string& option, const std::string& value);

}  // namespace accel
