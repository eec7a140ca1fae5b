#include "core/base/progress_text.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/formatted.h"
#include "core/base/terminal.h"

namespace accel {
namespace {

constexpr auto kBytesUnit = "B";
constexpr int kLeastBar = 10, kMostBar = 30;

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < kUnits.size(); ++unit) bytes /= 1000;
  return formatted(unit == 0 || bytes >= 99.5 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
}

std::string count_text(const TaskProgress& task) {
  const bool bytes = task.unit == kBytesUnit;
  const auto number = [&](int64_t value) {
    return bytes ? bytes_text(static_cast<double>(value)) : grouped_digits(value);
  };
  if (task.total <= 0) {
    if (task.done <= 0) return "";
    return bytes || task.unit.empty() ? number(task.done) : number(task.done) + " " + task.unit;
  }
  const std::string of = number(task.done) + "/" + number(task.total);
  return bytes || task.unit.empty() ? of : of + " " + task.unit;
}

std::string time_text(const TaskProgress& task, bool with_elapsed) {
  std::string text;
  if (with_elapsed && task.elapsed >= 0) text = clock_text(task.elapsed);
  if (task.left < 0) return text;
  return text + (text.empty() ? "" : ", ") + clock_text(task.left) + " left";
}

double share_done(const TaskProgress& task) {
  const double share = static_cast<double>(task.done) / static_cast<double>(task.total);
  return std::clamp(share, 0.0, 1.0);
}

std::string percent_text(const TaskProgress& task) {
  return formatted("%3.0f %%", std::floor(100 * share_done(task)));
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

/// `width` columns with the frame.
std::string bar_text(double share, int width, bool unicode) {
  const int inside = width - 2;
  if (!unicode) {
    const int filled = static_cast<int>(share * inside);
    return "[" + repeated("#", filled) + repeated(".", inside - filled) + "]";
  }
  constexpr std::array<const char*, 8> kParts = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  constexpr int kEighths = 8;
  const int eighths = static_cast<int>(share * inside * kEighths);
  const int whole = eighths / kEighths, part = eighths % kEighths;
  return "▕" + repeated("█", whole) + kParts[static_cast<size_t>(part)] +
         repeated(" ", inside - whole - (part > 0 ? 1 : 0)) + "▏";
}

/// The fields of a line; `level` leaves out more of them.
struct Fields {
  bool bar = true, detail = true, elapsed = true;
  size_t rates = 0;

  Fields(const TaskProgress& task, int level)
      : bar(level < 4 && task.total > 0),
        detail(level < 5),
        elapsed(level < 2),
        rates(std::min<size_t>(task.rates.size(), level < 1   ? 9
                                                  : level < 3 ? 1
                                                              : 0)) {}
};

/// The fields before and after the bar, with two spaces between them.
std::pair<std::string, std::string> around_bar(const TaskProgress& task, const Fields& fields) {
  std::string before = task.what;
  if (task.total > 0) before += (before.empty() ? "" : " ") + percent_text(task);
  std::string after;
  const auto add = [&](const std::string& field) {
    if (!field.empty()) after += "  " + field;
  };
  add(count_text(task));
  if (fields.detail) add(task.detail);
  for (size_t i = 0; i < fields.rates; ++i) add(task.rates[i]);
  add(time_text(task, fields.elapsed));
  if (before.empty() && !after.empty()) after.erase(0, 2);
  return {before, after};
}

}  // namespace

std::string clock_text(double seconds) {
  const auto total = static_cast<long>(std::clamp(seconds, 0.0, 1e12));
  if (total >= 3600) {
    return formatted("%ld:%02ld:%02ld", total / 3600, total / 60 % 60, total % 60);
  }
  return formatted("%ld:%02ld", total / 60, total % 60);
}

std::string grouped_digits(int64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    const size_t left = digits.size() - i;
    if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

std::string rate_text(double per_second, const std::string& unit) {
  if (!(per_second > 0) || !std::isfinite(per_second)) return "";
  if (unit == kBytesUnit) return bytes_text(per_second) + "/s";
  if (per_second < 1) return formatted("%.3g s/", 1 / per_second) + unit;
  if (per_second >= 99.95) return grouped_digits(std::llround(per_second)) + " " + unit + "s/s";
  return formatted("%.3g ", per_second) + unit + "s/s";
}

ProgressLine progress_line(const TaskProgress& task, int columns, bool unicode) {
  constexpr int kLevels = 6;
  for (int level = 0; level < kLevels; ++level) {
    const Fields fields(task, level);
    const auto [before, after] = around_bar(task, fields);
    const int gap = before.empty() ? 0 : 1;
    const int room = columns - columns_of(before) - columns_of(after) - gap;
    const bool last = level + 1 == kLevels;
    if (room < (fields.bar ? kLeastBar : -gap) && !last) continue;
    if (!fields.bar) return {cut_to_columns(before + after, columns)};
    const std::string bar = bar_text(share_done(task), std::min(room, kMostBar), unicode);
    const std::string start = before + std::string(static_cast<size_t>(gap), ' ');
    return {start + bar + after, start.size(), bar.size()};
  }
  return {};
}

std::string plain_progress(const TaskProgress& task) {
  Fields fields(task, 0);
  const auto [before, after] = around_bar(task, fields);
  return before.substr(std::min(before.find_first_not_of(' '), before.size())) + after;
}

}  // namespace accel
