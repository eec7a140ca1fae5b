#include "text/chat/chat_date.h"

#include <array>
#include <string_view>

#include "core/base/format_error.h"
#include "core/base/text.h"

namespace accel {

ChatDate::ChatDate(const std::string& text) {
  const auto refuse = [&] {
    throw FormatError(
        accel::text("'{}' is not a date such as '2026-11-26' or '2026-11-26 17:30'", text));
  };
  const bool with_time = text.size() == 16;
  if (text.size() != 10 && !with_time) refuse();
  for (size_t i = 0; i < text.size(); ++i) {
    const char wanted = "0000-00-00 00:00"[i];
    if (wanted == '0' ? text[i] < '0' || text[i] > '9' : text[i] != wanted) refuse();
  }
  const auto number = [&](size_t at, size_t size) { return std::stoi(text.substr(at, size)); };
  time_.tm_year = number(0, 4) - 1900;
  time_.tm_mon = number(5, 2) - 1;
  time_.tm_mday = number(8, 2);
  time_.tm_hour = with_time ? number(11, 2) : 0;
  time_.tm_min = with_time ? number(14, 2) : 0;
  const std::tm given = time_;
  timegm(&time_);  // day of the week and of the year; moves a date that does not exist
  if (time_.tm_mday != given.tm_mday || time_.tm_mon != given.tm_mon ||
      time_.tm_hour != given.tm_hour || time_.tm_min != given.tm_min) {
    refuse();
  }
}

std::string ChatDate::written(const std::string& format) const {
  constexpr std::string_view kConversions = "aAbBcdDeFhHIjmMnprRStTuUVwWxXyYCgG%";
  std::string out;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      out += format[at];
      continue;
    }
    const size_t begin = at++;
    if (at < format.size() && format[at] == '-') ++at;
    if (at >= format.size() || kConversions.find(format[at]) == std::string_view::npos) {
      throw FormatError(text("strftime_now with '{}' is not supported", format));
    }
    std::array<char, 128> buffer;
    const std::string conversion = format.substr(begin, at + 1 - begin);
    out.append(buffer.data(),
               std::strftime(buffer.data(), buffer.size(), conversion.c_str(), &time_));
  }
  return out;
}

}  // namespace accel
