// Environment variables. Functions take a lookup, so that tests pass their own variables.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace accel {

/// The value of a variable; none when it is unset.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// The lookup in the environment of this process.
std::optional<std::string> environment_variable(const std::string& name);

/// "localhost" when it is unknown.
std::string host_name();

}  // namespace accel
