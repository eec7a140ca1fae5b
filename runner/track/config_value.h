// Flattened options as typed values, for trackers that sort and filter by them.
#pragma once

#include <string>
#include <variant>

namespace accel {

using ConfigValue = std::variant<bool, double, std::string>;

/// "true" and "false" are switches, what reads as a finite number is one, all else is text.
ConfigValue config_value(const std::string& text);

/// As Python's json module has it: nan and infinities are NaN, Infinity and -Infinity.
std::string python_json(double value);

/// The same value as JSON.
std::string config_json(const std::string& text);

}  // namespace accel
