// Sweeps from their text.
#pragma once

#include <string>

#include "runner/sweep/sweep_file.h"

namespace accel {

inline SweepOptions sweep_of(const std::string& text) {
  return read_sweep("sweeps/lr.yaml", text);
}

/// What is wrong with it; empty: nothing.
inline std::string sweep_error(const std::string& text) {
  try {
    sweep_of(text);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace accel
