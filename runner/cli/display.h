// Options of the terminal output, which every verb has.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace accel {

struct DisplayOptions {
  std::string color = "auto";
  std::string progress = "auto";
  bool quiet = false;
  bool verbose = false;
};

/// Adds --color, --progress, --quiet and --verbose; `to` must outlive the app.
void add_display_options(CLI::App& app, DisplayOptions& to);

/// Whether a word is one of them that takes the next word as its value.
bool takes_display_value(const std::string& word);

/// Moves those between `launch` and its recipe before the verb: the other flags of `launch` are
/// Accelerate's and parsed by compat.
void hoist_display_options(std::vector<std::string>& words);

/// Applies the value of --color in a command line, for errors before it is parsed.
void apply_color_in(const std::vector<std::string>& words);

/// Applies them to this process. Throws Error where progress cannot be shown as requested.
void apply_display_options(const DisplayOptions& options);

/// The applied options as words of a command line, for processes whose output is this one's.
const std::vector<std::string>& display_words();

}  // namespace accel
