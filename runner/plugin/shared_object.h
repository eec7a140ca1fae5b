// Code that is loaded while the program runs.
#pragma once

#include <string>

#include "core/registry.h"

namespace accel {

/// Loads the plugin at `path`, which was found to be one, and enters its components into
/// `registry`. A child process does so first, so that an initialiser that throws or crashes ends
/// that one alone. A process loads a path once: what is built there later it does not see. Throws
/// Error (recipe).
void enter_plugin(const std::string& path, Registry& registry);

}  // namespace accel
