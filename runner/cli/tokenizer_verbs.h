// The verbs of `accel-run tokenizer`. None of them needs libtorch.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "core/error.h"

namespace accel {

/// Adds the group to the command line; parsing puts what the words ask for into `verb`.
void add_tokenizer_verbs(CLI::App& app, std::function<ExitCode()>& verb);

}  // namespace accel
