// Phases of a rank that its launcher distinguishes by name.
#pragma once

namespace accel {

/// The run is complete, and rank 0 checks `expect`. Exit code 1 is then no failure of the rank.
inline constexpr const char* kExpectationsPhase = "expectations";

}  // namespace accel
