#include "runner/cli/display.h"

#include <algorithm>
#include <array>

#include <CLI/CLI.hpp>

#include "compat/accelerate/launch_flags.h"
#include "core/base/activity.h"
#include "core/base/console.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "core/base/text.h"
#include "parallel/rendezvous/rank_info.h"

namespace accel {
namespace {

constexpr std::array<std::pair<const char*, ColorChoice>, 3> kColors = {
    {{"auto", ColorChoice::kAuto},
     {"always", ColorChoice::kAlways},
     {"never", ColorChoice::kNever}}};

constexpr std::array<std::pair<const char*, ProgressStyle>, 4> kStyles = {
    {{"auto", ProgressStyle::kAuto},
     {"bar", ProgressStyle::kBar},
     {"lines", ProgressStyle::kLines},
     {"none", ProgressStyle::kNone}}};

constexpr auto kColor = "--color", kProgress = "--progress";
constexpr std::array<const char*, 4> kSwitches = {"--quiet", "-q", "--verbose", "-v"};

template <class Value, size_t N>
std::vector<std::string> names_in(const std::array<std::pair<const char*, Value>, N>& names) {
  std::vector<std::string> out;
  for (const auto& [name, value] : names) out.emplace_back(name);
  return out;
}

template <class Value, size_t N>
Value value_of(const std::array<std::pair<const char*, Value>, N>& names, const std::string& word) {
  return std::find_if(names.begin(), names.end(),
                      [&](const auto& pair) { return word == pair.first; })
      ->second;
}

std::string flag_name(const std::string& word) {
  return word.substr(0, word.find('='));
}

bool is_display_option(const std::string& word) {
  const std::string name = flag_name(word);
  return name == kColor || name == kProgress ||
         std::find(kSwitches.begin(), kSwitches.end(), word) != kSwitches.end();
}

/// Whether a flag of `accelerate launch` takes the next word as its value.
bool takes_launch_value(const std::string& word) {
  if (word.find('=') != word.npos) return false;
  std::string name = word.substr(word.starts_with("--") ? 2 : 1);
  std::replace(name.begin(), name.end(), '-', '_');
  const LaunchFlag* flag = find_launch_flag(name);
  return flag && flag->takes_value;
}

std::vector<std::string>& applied_words() {
  static std::vector<std::string> words;
  return words;
}

/// Ranks other than 0 print nothing; those of other launchers have a terminal as well.
bool is_other_rank() {
  try {
    const std::optional<RankInfo> rank = find_rank(&environment_variable);
    return rank && rank->rank != 0;
  } catch (const Error&) {
    return false;  // reported by the verbs that train
  }
}

}  // namespace

void add_display_options(CLI::App& app, DisplayOptions& to) {
  app.add_option(kColor, to.color, "colors of the terminal: auto, always or never")
      ->check(CLI::IsMember(names_in(kColors)));
  CLI::Option* const progress =
      app.add_option(kProgress, to.progress,
                     "progress: auto (a bar on a terminal), bar, lines or none")
          ->check(CLI::IsMember(names_in(kStyles)));
  CLI::Option* const quiet =
      app.add_flag("-q,--quiet", to.quiet, "print errors, warnings and the result only")
          ->excludes(progress);
  app.add_flag("-v,--verbose", to.verbose, "print how long each part of the work takes")
      ->excludes(quiet);
}

bool takes_display_value(const std::string& word) {
  return word == kColor || word == kProgress;
}

void hoist_display_options(std::vector<std::string>& words) {
  auto verb = words.begin();
  while (verb != words.end() && verb->starts_with('-')) {
    const bool has_value = *verb == "--error-format" || takes_display_value(*verb);
    verb += has_value && words.end() - verb > 1 ? 2 : 1;
  }
  if (verb == words.end() || *verb != "launch") return;
  std::vector<std::string> hoisted, rest;
  auto at = verb;
  const auto take = [&](std::vector<std::string>& to, bool with_value) {
    to.push_back(*at++);
    if (with_value && at != words.end()) to.push_back(*at++);
  };
  take(rest, false);
  while (at != words.end() && at->starts_with('-')) {
    const bool ours = is_display_option(*at);
    take(ours ? hoisted : rest, ours ? takes_display_value(*at) : takes_launch_value(*at));
  }
  rest.insert(rest.end(), at, words.end());
  words.erase(verb, words.end());
  words.insert(words.end(), hoisted.begin(), hoisted.end());
  words.insert(words.end(), rest.begin(), rest.end());
}

void apply_color_in(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (flag_name(words[i]) != kColor) continue;
    const bool joined = words[i] != kColor;
    const std::string value = joined                 ? words[i].substr(words[i].find('=') + 1)
                              : i + 1 < words.size() ? words[i + 1]
                                                     : "";
    for (const auto& [name, choice] : kColors) {
      if (value == name) choose_color(choice);
    }
  }
}

void apply_display_options(const DisplayOptions& options) {
  std::vector<std::string>& words = applied_words();
  words = {kColor, options.color};
  if (options.quiet) {
    words.emplace_back(kSwitches[0]);
  } else {
    words.insert(words.end(), {kProgress, options.progress});
  }
  if (options.verbose) words.emplace_back(kSwitches[2]);
  choose_color(value_of(kColors, options.color));
  choose_verbosity(options.quiet     ? Verbosity::kQuiet
                   : options.verbose ? Verbosity::kVerbose
                                     : Verbosity::kNormal);
  const ProgressStyle style = value_of(kStyles, options.progress);
  choose_progress(is_other_rank() ? ProgressStyle::kNone : style);
  if (style == ProgressStyle::kBar && !is_other_rank() && !has_progress_terminal()) {
    throw Error(ExitCode::kRecipe, "'--progress bar' needs a terminal, and the output is none",
                "use '--progress lines', or leave it out");
  }
}

const std::vector<std::string>& display_words() {
  return applied_words();
}

}  // namespace accel
