// The verbs of `accel-run plugin`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"

namespace accel {

/// Adds the group to the command line; parsing puts what the words ask for into `verb`. `argv` is
/// the whole command line, and is filled in before that is called.
void add_plugin_verbs(CLI::App& app, const std::vector<std::string>& argv,
                      std::function<ExitCode()>& verb);

}  // namespace accel
