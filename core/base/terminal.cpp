#include "core/base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "core/base/environment.h"
#include "core/base/utf8.h"

namespace accel {
namespace {

ColorChoice color_choice = ColorChoice::kAuto;

const char* ink_code(Ink ink) {
  switch (ink) {
    case Ink::kError:
      return "\033[1;31m";
    case Ink::kWarning:
      return "\033[1;33m";
    case Ink::kHint:
      return "\033[36m";
    case Ink::kCaret:
      return "\033[1;32m";
    case Ink::kTitle:
      return "\033[1m";
    case Ink::kBar:
      return "\033[32m";
    case Ink::kFaint:
      return "\033[2m";
  }
  return "";
}

bool is_set(const char* variable) {
  const std::string value = environment_variable(variable).value_or("");
  return !value.empty() && value != "0";
}

/// Offset of `tag` where a report begins a message: first in the line, or after a position such as
/// "recipe.yaml:7:5: ". npos: none.
size_t tag_offset(std::string_view line, std::string_view tag) {
  if (line.starts_with(tag)) return 0;
  const size_t at = line.find(tag);
  if (at == line.npos || at < 2 || line.substr(at - 2, 2) != ": ") return line.npos;
  const std::string_view before = line.substr(0, at);
  return before.find('\'') == before.npos && before.front() != ' ' ? at : line.npos;
}

bool is_caret_line(std::string_view line) {
  const size_t at = line.find_first_not_of(" \t");
  return at != line.npos && at > 0 && line.substr(at) == "^";
}

std::string colored_line(std::string_view line) {
  constexpr std::string_view kHint = "  hint:";
  if (line.starts_with(kHint)) {
    return inked(Ink::kHint, kHint) + std::string(line.substr(kHint.size()));
  }
  if (is_caret_line(line)) return inked(Ink::kCaret, line);
  for (const auto& [tag, ink] : {std::pair<std::string_view, Ink>{"error: ", Ink::kError},
                                 std::pair<std::string_view, Ink>{"warning: ", Ink::kWarning}}) {
    const size_t at = tag_offset(line, tag);
    if (at == line.npos) continue;
    const std::string place = at > 0 ? inked(Ink::kTitle, line.substr(0, at)) : "";
    return place + inked(ink, line.substr(at, tag.size() - 1)) +
           std::string(line.substr(at + tag.size() - 1));
  }
  return std::string(line);
}

int number_in(const char* variable, int fallback) {
  const int number = std::atoi(environment_variable(variable).value_or("").c_str());
  return number > 0 ? std::min(number, 1000) : fallback;
}

}  // namespace

void choose_color(ColorChoice choice) {
  color_choice = choice;
}

bool is_colored(int fd) {
  if (color_choice != ColorChoice::kAuto) return color_choice == ColorChoice::kAlways;
  if (!environment_variable("NO_COLOR").value_or("").empty()) return false;
  if (is_set("CLICOLOR_FORCE")) return true;
  return is_terminal(fd) || (fd == STDERR_FILENO && is_set(kColorVariable));
}

std::string inked(Ink ink, std::string_view text) {
  return ink_code(ink) + std::string(text) + "\033[0m";
}

std::string colored_report(std::string_view report) {
  std::string out;
  for (size_t begin = 0; begin < report.size();) {
    const size_t end = std::min(report.find('\n', begin), report.size());
    out += colored_line(report.substr(begin, end - begin));
    if (end < report.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

bool is_terminal(int fd) {
  return ::isatty(fd) == 1 && environment_variable("TERM").value_or("") != "dumb";
}

TerminalSize terminal_size(int fd) {
  winsize size = {};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    return {size.ws_col, size.ws_row};
  }
  return {number_in("COLUMNS", 80), number_in("LINES", 24)};
}

bool has_unicode() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value = environment_variable(variable).value_or("");
    if (value.empty()) continue;
    std::transform(value.begin(), value.end(), value.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return value.find("utf-8") != value.npos || value.find("utf8") != value.npos;
  }
  return false;
}

int columns_of(std::string_view text) {
  size_t columns = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(1, character_length(text, at));
    columns += display_width(text.substr(at, length));
    at += length;
  }
  return static_cast<int>(columns);
}

std::string cut_to_columns(const std::string& text, int columns) {
  int used = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(1, character_length(text, at));
    used += static_cast<int>(display_width(std::string_view(text).substr(at, length)));
    if (used > columns) return text.substr(0, at);
    at += length;
  }
  return text;
}

}  // namespace accel
