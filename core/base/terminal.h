// Terminals: size, colors and characters of the standard streams.
#pragma once

#include <string>
#include <string_view>

namespace accel {

/// Set by the launcher for a rank whose standard error it relays to a terminal with colors.
constexpr auto kColorVariable = "ACCEL_RUN_STDERR_COLOR";

/// kAuto: NO_COLOR, then CLICOLOR_FORCE, then whether the stream is a terminal.
enum class ColorChoice { kAuto, kAlways, kNever };

/// The meanings of colors in output.
enum class Ink { kError, kWarning, kHint, kCaret, kTitle, kBar, kFaint };

void choose_color(ColorChoice choice);
/// Whether a stream, by its descriptor, takes colors.
bool is_colored(int fd);
/// `text` between the escape codes of a color.
std::string inked(Ink ink, std::string_view text);
/// A report of errors, warnings and hints, with escape codes.
std::string colored_report(std::string_view report);

/// Whether a descriptor is a terminal on which lines can be redrawn.
bool is_terminal(int fd);

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};

/// The current size of the terminal of a descriptor; else COLUMNS and LINES, else 80 by 24.
TerminalSize terminal_size(int fd);

/// Whether the locale's encoding is UTF-8, by LC_ALL, LC_CTYPE or LANG.
bool has_unicode();

/// Columns that a text takes on a terminal.
int columns_of(std::string_view text);
/// The beginning of a text that fits into `columns`.
std::string cut_to_columns(const std::string& text, int columns);

}  // namespace accel
