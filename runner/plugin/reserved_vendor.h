// The vendor that no plugin may have.
#pragma once

#include <string>

namespace accel {

bool is_reserved_vendor(const std::string& vendor);

inline constexpr auto kReservedVendor = "the vendor 'accel' is accel-run's own";
inline constexpr auto kReservedVendorHint = "write another one, such as your company's or your own";

}  // namespace accel
