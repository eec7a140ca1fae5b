// Whole numbers of JSON that another program wrote.
#pragma once

#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace accel {

/// The whole number that `value` is; nothing when it is something else, a fraction, or no number
/// that `T` holds. (nlohmann's get() cuts fractions, wraps what is too large, and what it makes of
/// 1e30 is undefined.)
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
