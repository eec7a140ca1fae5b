// Reader of JSON rows: one object per line, or the objects of one array.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/records/records.h"

namespace accel {

/// Splits a text into rows without parsing them: the elements of the array that it begins with, or
/// else its lines. Skips blank lines and a byte order mark. A malformed array gives rows that are
/// not JSON.
class JsonRows {
 public:
  /// `text` must outlive the rows.
  explicit JsonRows(std::string_view text);

  /// The next row; false at the end.
  bool next(std::string_view& row);

  bool is_array() const { return is_array_; }
  /// Line of the last row's first character, from 1.
  int64_t line() const { return row_line_; }
  /// Bytes read so far.
  size_t offset() const { return std::min(at_, text_.size()); }

 private:
  bool next_line(std::string_view& row);
  bool next_element(std::string_view& row);
  void skip_space();
  size_t end_of_element() const;

  std::string_view text_;
  size_t at_ = 0;
  int64_t line_ = 1;
  int64_t row_line_ = 0;
  bool is_array_ = false;
};

/// Reads fields of JSON rows.
class JsonlReader final : public RecordReader {
 public:
  /// `text` must outlive the reader; `name` is for messages.
  /// Fields of `lists` may be lists, whose text is JSON.
  JsonlReader(std::span<const std::byte> text, std::vector<std::string> wanted, std::string name,
              std::set<std::string> lists = {});

  /// Throws DataError for rows above 16 MiB, rows that are not a JSON object, duplicate keys,
  /// deep nesting, and missing fields or fields of another type.
  bool next(std::vector<std::string_view>& fields) override;

  /// Bytes read so far.
  size_t offset() const { return rows_.offset(); }

  /// "train.jsonl:3"
  std::string location() const override { return name_ + ":" + std::to_string(rows_.line()); }

 private:
  JsonRows rows_;
  std::vector<std::string> wanted_;
  std::set<std::string> lists_;
  std::string name_;
  std::vector<std::string> values_;
};

/// Calls `use` with each of the JsonRows of `text` and its line.
template <class Use>
void each_json_row(std::string_view text, const Use& use) {
  JsonRows rows(text);
  for (std::string_view row; rows.next(row);) use(row, rows.line());
}

}  // namespace accel
