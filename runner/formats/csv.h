// Delimited text by RFC 4180, read record by record out of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

/// How a delimited text is written.
struct CsvDialect {
  char delimiter = ',';
  bool quoting = true;  ///< false: a quote is a character like any other
};

/// Every record has as many fields as the first; lines without any character are skipped. Ends of
/// line are LF or CRLF. A byte order mark is skipped.
class CsvReader {
 public:
  /// `text` must outlive the reader; `name` is for messages.
  CsvReader(std::span<const std::byte> text, CsvDialect dialect, std::string name);

  /// Reads the next record; false at the end. The views last until the next call. Throws DataError
  /// with file and line for a wrong number of fields, misplaced quotes or a record above 16 MiB;
  /// then the next one is that behind it, where quotes are misplaced behind its first line.
  bool next(std::vector<std::string_view>& fields);

  /// Where the record just read starts: 1 for the first line of the file.
  int64_t line() const { return record_line_; }
  /// "table.csv:3"
  std::string place() const { return name_ + ":" + std::to_string(record_line_); }

 private:
  void read_fields(std::vector<std::string_view>& fields);
  void skip_first_line();
  [[noreturn]] void fail(const std::string& problem, const std::string& hint = {}) const;
  std::string_view plain_field();
  std::string_view quoted_field();
  std::string_view rest_of_line();
  bool skip_line_end();
  void check_length() const;

  std::string_view text_;
  CsvDialect dialect_;
  std::string name_;
  size_t at_ = 0;
  size_t record_start_ = 0;
  size_t line_end_ = 0;  ///< of the line at_ is in, once at_ has passed the last one
  size_t field_count_ = 0;
  int64_t line_ = 1;
  int64_t record_line_ = 0;
  std::deque<std::string> unquoted_;  ///< fields whose doubled quotes were undone
};

}  // namespace accel
