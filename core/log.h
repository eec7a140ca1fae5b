// Lines for people: to the terminal, and to the run's own log file once there is one.
#pragma once

#include <string>

namespace accel {

/// A line on standard output.
void say(const std::string& line);

/// "warning: ..." on standard error.
void warn(const std::string& line);

/// From now on neither reaches the terminal, or both do again: of many ranks only one speaks.
void be_silent(bool on = true);

/// From now on both go to `path` as well (appended). Throws IoError when it cannot be opened.
void log_to_file(const std::string& path);

/// Lines are no longer copied to a file; what was written is on its way to the disk.
void close_log_file();

/// While a progress bar is drawn, `redraw(false)` is called before a line and `redraw(true)` after.
void set_line_hook(void (*redraw)(bool draw));

}  // namespace accel
