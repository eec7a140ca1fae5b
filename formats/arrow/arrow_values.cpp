#include "formats/arrow/arrow_values.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_dict.h>
#include <arrow/array/array_nested.h>
#include <arrow/array/array_primitive.h>

#include <charconv>
#include <stdexcept>

namespace accel {
namespace {

constexpr auto kImageBytes = "bytes";

template <class Column>
std::string_view view_of(const arrow::Array& column, int64_t row) {
  return static_cast<const Column&>(column).GetView(row);
}

/// The shortest text that reads back as the value.
template <class Column>
std::string_view number_of(const arrow::Array& column, int64_t row, std::string& buffer) {
  buffer.resize(32);
  const auto value = static_cast<const Column&>(column).Value(row);
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), static_cast<size_t>(end - buffer.data())};
}

bool holds_bytes(const arrow::DataType& type) {
  return type.id() == arrow::Type::BINARY || type.id() == arrow::Type::LARGE_BINARY;
}

}  // namespace

bool has_text(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) {
    return has_text(*static_cast<const arrow::DictionaryType&>(type).value_type());
  }
  const bool number = arrow::is_integer(type.id()) || type.id() == arrow::Type::FLOAT ||
                      type.id() == arrow::Type::DOUBLE;
  return number || type.id() == arrow::Type::BOOL || type.id() == arrow::Type::STRING ||
         type.id() == arrow::Type::LARGE_STRING || type.id() == arrow::Type::STRING_VIEW;
}

std::string_view text_of_value(const arrow::Array& column, int64_t row, std::string& buffer) {
  switch (column.type_id()) {
    case arrow::Type::STRING:
      return view_of<arrow::StringArray>(column, row);
    case arrow::Type::LARGE_STRING:
      return view_of<arrow::LargeStringArray>(column, row);
    case arrow::Type::STRING_VIEW:
      return view_of<arrow::StringViewArray>(column, row);
    case arrow::Type::BOOL:
      return static_cast<const arrow::BooleanArray&>(column).Value(row) ? "true" : "false";
    case arrow::Type::INT8:
      return number_of<arrow::Int8Array>(column, row, buffer);
    case arrow::Type::INT16:
      return number_of<arrow::Int16Array>(column, row, buffer);
    case arrow::Type::INT32:
      return number_of<arrow::Int32Array>(column, row, buffer);
    case arrow::Type::INT64:
      return number_of<arrow::Int64Array>(column, row, buffer);
    case arrow::Type::UINT8:
      return number_of<arrow::UInt8Array>(column, row, buffer);
    case arrow::Type::UINT16:
      return number_of<arrow::UInt16Array>(column, row, buffer);
    case arrow::Type::UINT32:
      return number_of<arrow::UInt32Array>(column, row, buffer);
    case arrow::Type::UINT64:
      return number_of<arrow::UInt64Array>(column, row, buffer);
    case arrow::Type::FLOAT:
      return number_of<arrow::FloatArray>(column, row, buffer);
    case arrow::Type::DOUBLE:
      return number_of<arrow::DoubleArray>(column, row, buffer);
    case arrow::Type::DICTIONARY: {
      const auto& coded = static_cast<const arrow::DictionaryArray&>(column);
      return text_of_value(*coded.dictionary(), coded.GetValueIndex(row), buffer);
    }
    default:
      throw std::logic_error("a column type without a text form");
  }
}

bool has_bytes(const arrow::DataType& type) {
  if (type.id() != arrow::Type::STRUCT) return holds_bytes(type);
  const auto field = static_cast<const arrow::StructType&>(type).GetFieldByName(kImageBytes);
  return field && holds_bytes(*field->type());
}

const arrow::DataType* item_type(const arrow::DataType& type) {
  if (type.id() != arrow::Type::LIST && type.id() != arrow::Type::LARGE_LIST) return nullptr;
  return static_cast<const arrow::BaseListType&>(type).value_type().get();
}

bool is_list_of_numbers(const arrow::DataType& type) {
  const arrow::DataType* const item = item_type(type);
  return item && arrow::is_integer(item->id());
}

bool holds_text(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) {
    return holds_text(*static_cast<const arrow::DictionaryType&>(type).value_type());
  }
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING ||
         type.id() == arrow::Type::STRING_VIEW;
}

std::optional<std::string_view> bytes_of_value(const arrow::Array& column, int64_t row) {
  if (column.type_id() == arrow::Type::BINARY) return view_of<arrow::BinaryArray>(column, row);
  if (column.type_id() == arrow::Type::LARGE_BINARY) {
    return view_of<arrow::LargeBinaryArray>(column, row);
  }
  const auto inner = static_cast<const arrow::StructArray&>(column).GetFieldByName(kImageBytes);
  if (inner->IsNull(row)) return std::nullopt;
  return bytes_of_value(*inner, row);
}

ListSlice slice_of_list(const arrow::Array& column, int64_t row) {
  if (column.type_id() == arrow::Type::LARGE_LIST) {
    const auto& list = static_cast<const arrow::LargeListArray&>(column);
    return {list.values(), list.value_offset(row), list.value_length(row)};
  }
  const auto& list = static_cast<const arrow::ListArray&>(column);
  return {list.values(), list.value_offset(row), list.value_length(row)};
}

}  // namespace accel
