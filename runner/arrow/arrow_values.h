// Values of Arrow's columns as texts, bytes and numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace arrow {
class Array;
class DataType;
}  // namespace arrow

namespace accel {

/// Whether text_of_value() takes values of that type.
bool has_text(const arrow::DataType& type);
/// A value that is not null, as JSON spells it but without quotes: in the column or in `buffer`.
std::string_view text_of_value(const arrow::Array& column, int64_t row, std::string& buffer);

/// Whether a column is of bytes, or of Images of Hugging Face's datasets.
bool has_bytes(const arrow::DataType& type);
/// Of a value that is not null; none: an Image that has only a path.
std::optional<std::string_view> bytes_of_value(const arrow::Array& column, int64_t row);

/// Of whole numbers, any of which may be too large for int64.
bool is_list_of_numbers(const arrow::DataType& type);

/// A value of a column of lists: a part of all lists' values.
struct ListPart {
  std::shared_ptr<arrow::Array> values;
  int64_t first, size;
};
ListPart part_of_list(const arrow::Array& column, int64_t row);

}  // namespace accel
