// Integers from JSON of other programs.
#pragma once

#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace accel {

/// `value` as an integer; none when it is no number, has a fraction or is out of range for `T`.
/// (nlohmann's get() truncates fractions, wraps large values and is undefined for 1e30.)
template <std::integral T>
std::optional<T> whole_number(const nlohmann::json& value) {
  const auto held = [](auto number) {
    return std::in_range<T>(number) ? std::optional(static_cast<T>(number)) : std::nullopt;
  };
  if (value.is_number_unsigned()) return held(value.get<uint64_t>());
  if (value.is_number_integer()) return held(value.get<int64_t>());
  return std::nullopt;
}

}  // namespace accel
