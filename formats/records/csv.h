// Reader of delimited text (RFC 4180).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

/// Delimiter and quoting of a file.
struct CsvDialect {
  char delimiter = ',';
  bool quoting = true;              ///< false: quotes are plain characters
  bool skip_initial_space = false;  ///< spaces after delimiters are no part of fields
};

/// All records must have as many fields as the first. Skips empty lines and a byte order mark;
/// lines end with LF or CRLF.
class CsvReader {
 public:
  /// `text` must outlive the reader; `name` is for messages.
  CsvReader(std::span<const std::byte> text, CsvDialect dialect, std::string name);

  /// Reads the next record; false at the end. The views are valid until the next call. Throws
  /// DataError with file and line for another number of fields, misplaced quotes and records above
  /// 16 MiB. The next call then continues after the record or, for misplaced quotes, after its
  /// first line.
  bool next(std::vector<std::string_view>& fields);

  /// First line of the last record, from 1.
  int64_t line() const { return record_line_; }
  /// "table.csv:3"
  std::string location() const { return name_ + ":" + std::to_string(record_line_); }

 private:
  void read_fields(std::vector<std::string_view>& fields);
  void skip_bad_record();
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
  size_t bad_end_ = 0;   ///< behind the last quote of a record with text after it
  size_t line_end_ = 0;  ///< of the current line; stale while at_ is beyond it
  size_t field_count_ = 0;
  int64_t line_ = 1;
  int64_t record_line_ = 0;
  std::deque<std::string> unquoted_;  ///< fields after unescaping of doubled quotes
};

}  // namespace accel
