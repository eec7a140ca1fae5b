// Log: lines on the terminal and in the run's log file.
#pragma once

#include <string>

namespace accel {

/// A line on standard output.
void say(const std::string& line);

/// "warning: ..." on standard error.
void warn(const std::string& line);

/// Writes a formatted warning to standard error: `text` for people, `json` where warnings are JSON.
/// Both end with a line feed.
void print_warning(const std::string& text, const std::string& json);

/// Turns terminal output off or on: only rank 0 prints.
void be_silent(bool on = true);

/// Appends all lines to `path` as well. Throws IoError when it cannot be opened.
void log_to_file(const std::string& path);

/// Flushes and closes the log file.
void close_log_file();

/// `redraw(false)` erases a progress bar before each line, `redraw(true)` draws it again.
void set_line_hook(void (*redraw)(bool draw));

/// Prints warnings as {"severity": "warning", "message": ...}, one object per line, or as text. Log
/// files always have text.
void warn_as_json(bool on = true);

}  // namespace accel
