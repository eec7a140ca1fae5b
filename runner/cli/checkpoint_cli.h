// `checkpoint` and `export` on the command line.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/error.h"

namespace CLI {
class App;
}

namespace accel {

/// Adds the verbs to `app`. The chosen one is put into `verb`, and loads libtorch first, for which
/// it needs the command line `argv`. All three outlive the parse.
void add_checkpoint_verbs(CLI::App& app, const std::vector<std::string>& argv,
                          std::function<ExitCode()>& verb);

}  // namespace accel
