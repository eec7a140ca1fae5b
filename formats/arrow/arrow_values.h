// Values of Arrow columns as text, and the types that have one.
#pragma once

#include <arrow/array/array_base.h>
#include <arrow/type.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace accel {

/// A list value: a slice of the values of all lists.
struct ListSlice {
  std::shared_ptr<arrow::Array> values;
  int64_t first, size;
};

/// Whether text_of_value() supports the type.
bool has_text(const arrow::DataType& type);

/// Whether the type is binary or an Image of Hugging Face datasets.
bool has_bytes(const arrow::DataType& type);

/// The type of the values of lists; null for other types.
const arrow::DataType* item_type(const arrow::DataType& type);

/// Whether the type is a list of integers, uint64 included.
bool is_list_of_numbers(const arrow::DataType& type);

/// Also of a dictionary of them.
bool holds_text(const arrow::DataType& type);

/// A non-null value as in JSON, without quotes; a view of the column or of `buffer`.
std::string_view text_of_value(const arrow::Array& column, int64_t row, std::string& buffer);

/// The bytes of a non-null value; none for an Image with a path only.
std::optional<std::string_view> bytes_of_value(const arrow::Array& column, int64_t row);

ListSlice slice_of_list(const arrow::Array& column, int64_t row);

}  // namespace accel
