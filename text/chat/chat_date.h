// The date that chat templates write.
#pragma once

#include <ctime>
#include <string>

namespace accel {

/// The date that strftime_now() writes.
class ChatDate {
 public:
  /// Reads "2026-11-26" or "2026-11-26 17:30". Throws FormatError.
  explicit ChatDate(const std::string& text);
  /// Python's strftime. Throws FormatError for conversions other than those of date and time.
  std::string written(const std::string& format) const;

 private:
  std::tm time_{};
};

}  // namespace accel
