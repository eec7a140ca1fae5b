#include "runner/report/html.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "core/json_text.h"

namespace accel {
namespace {

/// "12345" as "12,345".
std::string grouped_digits(const std::string& digits) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    const size_t left = digits.size() - i;
    if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') out += ',';
    out += digits[i];
  }
  return out;
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : valid_utf8(text)) {
    const bool forbidden = static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t';
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if (forbidden) {
      out += "\xef\xbf\xbd";
    } else {
      out += c;
    }
  }
  return out;
}

std::string html_element(const std::string& name, std::string_view text) {
  return "<" + name + ">" + html_text(text) + "</" + name + ">";
}

std::string number_words(double value, int digits) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
  constexpr double kWritten = 1e15;
  const bool large = std::fabs(value) >= std::pow(10.0, digits) || value == std::floor(value);
  if (large && std::fabs(value) < kWritten) {
    return grouped_digits(std::to_string(static_cast<int64_t>(std::llround(value))));
  }
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return text.data();
}

std::string coordinate(double value) {
  std::array<char, 40> text;
  const double tenths = std::isfinite(value) ? std::round(value * 10) / 10 : 0;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), tenths == 0 ? 0 : tenths);
  return {text.data(), end.ptr};
}

std::string duration_words(double seconds) {
  if (!(seconds > 0)) return "0 s";
  std::array<char, 48> text;
  constexpr double kLongest = 1e12;
  const auto total = static_cast<long>(std::min(seconds, kLongest));
  if (total < 10) {
    std::snprintf(text.data(), text.size(), "%.2g s", seconds);
  } else if (total < 3600) {
    std::snprintf(text.data(), text.size(), "%ld:%02ld", total / 60, total % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%ld:%02ld:%02ld", total / 3600, total / 60 % 60,
                  total % 60);
  }
  return text.data();
}

}  // namespace accel
