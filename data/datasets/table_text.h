// The text of a table: its dialect, header and records.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mapped_file.h"
#include "data/datasets/table_columns.h"
#include "formats/records/csv.h"

namespace accel {

/// A table's text and its detected header; each pass over its records starts anew.
class TableText {
 public:
  using Fields = std::vector<std::string_view>;

  /// `dialect` is the meaning of `auto`. Throws DataError for an empty table, and for one that
  /// another delimiter fits.
  TableText(const TableOptions& options, CsvDialect dialect, SharedBytes file);

  ColumnNames columns() const { return {names_, width_, path_}; }
  std::span<const std::byte> bytes() const { return file_.view; }
  const std::string& path() const { return path_; }
  /// Properties beyond the content that determine the fields.
  std::string reading() const;

  /// A reader positioned at the first data record.
  CsvReader records() const;

 private:
  bool shows_header(const Fields& first, const TableOptions& options) const;
  void check_delimiter(const TableOptions& options) const;
  CsvReader raw(char delimiter) const;
  size_t fields_by(char delimiter) const;

  std::string path_;
  SharedBytes file_;
  CsvDialect dialect_;
  bool header_ = false;
  size_t width_ = 0;
  std::vector<std::string> names_;
};

}  // namespace accel
