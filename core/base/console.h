// The log's terminal output: its verbosity and special lines, apart from log.h, which plugins
// include.
#pragma once

#include <mutex>
#include <string>

namespace accel {

/// kQuiet: errors, warnings and results. kVerbose: notes as well.
enum class Verbosity { kQuiet, kNormal, kVerbose };

void choose_verbosity(Verbosity verbosity);
Verbosity verbosity();

/// Turns the lines of say() and results on the terminal off or on; warnings are printed, and log
/// files have all.
void be_quiet(bool on = true);
/// Whether be_silent() is on.
bool is_silent();

/// Lines as of say(). A title is in bold where standard output has colors.
void say_title(const std::string& line);
/// Printed in quiet output too.
void say_result(const std::string& line);
void say_result_title(const std::string& line);
/// Printed in verbose output only.
void say_note(const std::string& line);

/// Held while a line is written, so that threads do not draw into each other's lines.
std::recursive_mutex& console_mutex();

}  // namespace accel
