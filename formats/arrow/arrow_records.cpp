#include "formats/arrow/arrow_records.h"

#include <arrow/array.h>
#include <arrow/array/array_binary.h>
#include <arrow/array/array_dict.h>
#include <arrow/array/array_nested.h>
#include <arrow/array/array_primitive.h>
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

/// A list value: a slice of the values of all lists.
struct ListSlice {
  std::shared_ptr<arrow::Array> values;
  int64_t first, size;
};

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

/// Whether text_of_value() supports the type.
bool has_text(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) {
    return has_text(*static_cast<const arrow::DictionaryType&>(type).value_type());
  }
  const bool number = arrow::is_integer(type.id()) || type.id() == arrow::Type::FLOAT ||
                      type.id() == arrow::Type::DOUBLE;
  return number || type.id() == arrow::Type::BOOL || type.id() == arrow::Type::STRING ||
         type.id() == arrow::Type::LARGE_STRING || type.id() == arrow::Type::STRING_VIEW;
}

/// A non-null value as in JSON, without quotes; a view of the column or of `buffer`.
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

/// Whether the type is binary or an Image of Hugging Face datasets.
bool has_bytes(const arrow::DataType& type) {
  if (type.id() != arrow::Type::STRUCT) return holds_bytes(type);
  const auto field = static_cast<const arrow::StructType&>(type).GetFieldByName(kImageBytes);
  return field && holds_bytes(*field->type());
}

/// Whether the type is a list of integers, uint64 included.
bool is_list_of_numbers(const arrow::DataType& type) {
  if (type.id() != arrow::Type::LIST && type.id() != arrow::Type::LARGE_LIST) return false;
  return arrow::is_integer(static_cast<const arrow::BaseListType&>(type).value_type()->id());
}

ArrowColumn::Value value_of_type(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) {
    return value_of_type(*static_cast<const arrow::DictionaryType&>(type).value_type());
  }
  if (arrow::is_integer(type.id())) return ArrowColumn::Value::kInteger;
  if (type.id() == arrow::Type::BOOL) return ArrowColumn::Value::kBoolean;
  if (arrow::is_floating(type.id()) && has_text(type)) return ArrowColumn::Value::kNumber;
  if (has_text(type)) return ArrowColumn::Value::kText;
  if (has_bytes(type)) return ArrowColumn::Value::kBytes;
  return is_list_of_numbers(type) ? ArrowColumn::Value::kIntegers : ArrowColumn::Value::kOther;
}

/// The bytes of a non-null value; none for an Image with a path only.
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

constexpr int64_t kRowsAtOnce = 1024;
constexpr std::string_view kFileMagic = "ARROW1";
constexpr std::string_view kEndOfStream("\xff\xff\xff\xff\0\0\0\0", 8);

[[noreturn]] void damaged(const std::string& name, const std::string& why) {
  throw Error(ExitCode::kData,
              text("'{}' cannot be read: {}", name, why.substr(0, why.find('\n'))));
}

void require(const arrow::Status& status, const std::string& name) {
  if (!status.ok()) damaged(name, status.message());
}

template <class T>
T value(arrow::Result<T>&& result, const std::string& name) {
  require(result.status(), name);
  return std::move(result).ValueUnsafe();
}

/// A file's rows in record batches.
class Batches {
 public:
  virtual ~Batches() = default;
  virtual std::shared_ptr<arrow::Schema> schema() const = 0;
  /// Restricts next() to these columns of the schema, in ascending order.
  virtual void choose(const std::vector<int>& columns) = 0;
  /// Null at the end.
  virtual std::shared_ptr<arrow::RecordBatch> next() = 0;
};

class ParquetBatches final : public Batches {
 public:
  ParquetBatches(std::shared_ptr<arrow::io::RandomAccessFile> file, const std::string& name)
      : name_(name) {
    parquet::ArrowReaderProperties properties(/*use_threads=*/false);
    properties.set_batch_size(kRowsAtOnce);
    parquet::arrow::FileReaderBuilder builder;
    require(builder.Open(std::move(file)), name_);
    reader_ = value(
        builder.memory_pool(arrow::system_memory_pool())->properties(properties)->Build(), name_);
    require(reader_->GetSchema(&schema_), name_);
  }

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  void choose(const std::vector<int>& columns) override {
    std::vector<int> leaves;
    for (const int column : columns) {
      add_leaves(reader_->manifest().schema_fields[static_cast<size_t>(column)], leaves);
    }
    std::vector<int> groups(static_cast<size_t>(reader_->num_row_groups()));
    for (size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<int>(i);
    batches_ = value(reader_->GetRecordBatchReader(groups, leaves), name_);
  }

  std::shared_ptr<arrow::RecordBatch> next() override { return value(batches_->Next(), name_); }

 private:
  static void add_leaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
    if (field.is_leaf()) leaves.push_back(field.column_index);
    for (const parquet::arrow::SchemaField& child : field.children) add_leaves(child, leaves);
  }

  std::string name_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::shared_ptr<arrow::Schema> schema_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;
};

class IpcBatches final : public Batches {
 public:
  IpcBatches(std::shared_ptr<arrow::io::RandomAccessFile> file, bool stream, std::string name)
      : name_(std::move(name)), file_(std::move(file)), stream_(stream) {
    open();
  }

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  void choose(const std::vector<int>& columns) override {
    options_.included_fields = columns;
    const auto whole = schema_;
    open();
    schema_ = whole;
  }

  std::shared_ptr<arrow::RecordBatch> next() override {
    std::shared_ptr<arrow::RecordBatch> batch;
    if (as_stream_) {
      batch = value(as_stream_->Next(), name_);
    } else if (at_ < as_file_->num_record_batches()) {
      batch = value(as_file_->ReadRecordBatch(at_++), name_);
    }
    return batch;
  }

 private:
  void open() {
    options_.use_threads = false;
    options_.memory_pool = arrow::system_memory_pool();
    require(file_->Seek(0), name_);
    if (stream_) {
      as_stream_ = value(arrow::ipc::RecordBatchStreamReader::Open(file_, options_), name_);
      schema_ = as_stream_->schema();
    } else {
      as_file_ = value(arrow::ipc::RecordBatchFileReader::Open(file_, options_), name_);
      schema_ = as_file_->schema();
    }
  }

  std::string name_;
  std::shared_ptr<arrow::io::RandomAccessFile> file_;
  bool stream_;
  arrow::ipc::IpcReadOptions options_ = arrow::ipc::IpcReadOptions::Defaults();
  std::shared_ptr<arrow::ipc::RecordBatchStreamReader> as_stream_;
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> as_file_;
  std::shared_ptr<arrow::Schema> schema_;
  int at_ = 0;
};

std::unique_ptr<Batches> open_batches(const ArrowRequest& request) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(request.file.data());
  const std::string_view text(reinterpret_cast<const char*>(bytes), request.file.size());
  auto file = std::make_shared<arrow::io::BufferReader>(
      std::make_shared<arrow::Buffer>(bytes, static_cast<int64_t>(request.file.size())));
  if (request.format == ArrowFormat::kParquet) {
    return std::make_unique<ParquetBatches>(std::move(file), request.name);
  }
  const bool stream = !text.starts_with(kFileMagic);
  // Arrow accepts a stream that is truncated between two batches.
  if (stream && !text.ends_with(kEndOfStream)) damaged(request.name, "it has no end");
  return std::make_unique<IpcBatches>(std::move(file), stream, request.name);
}

/// Class names of a field in the schema metadata of Hugging Face datasets.
std::vector<std::string> names_of_classes(const arrow::Schema& schema, const std::string& field) {
  const auto json = schema.metadata() ? schema.metadata()->Get("huggingface")
                                      : arrow::Result<std::string>(arrow::Status::KeyError(""));
  if (!json.ok()) return {};
  const auto metadata = nlohmann::json::parse(*json, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json* at = &metadata;
  for (const char* key : {"info", "features", field.c_str(), "names"}) {
    if (!at->is_object() || !at->contains(key)) return {};
    at = &at->at(key);
  }
  std::vector<std::string> names;
  for (const auto& name : *at) {
    if (!name.is_string()) return {};
    names.push_back(name.get<std::string>());
  }
  return names;
}

class Records final : public ArrowRecords {
 public:
  explicit Records(const ArrowRequest& request)
      : name_(request.name), batches_(open_batches(request)) {
    std::vector<int> chosen;
    for (size_t i = 0; i < request.wanted.size(); ++i) {
      const std::string& field = request.wanted[i];
      const ArrowField kind = request.kinds.empty() ? ArrowField::kText : request.kinds.at(i);
      const int at = column_of(field, kind);
      if (std::find(chosen.begin(), chosen.end(), at) == chosen.end()) chosen.push_back(at);
      columns_.push_back({field, kind, at, {}, names_of_classes(*batches_->schema(), field), {}});
    }
    keep_nulls_ = request.keep_nulls;
    std::sort(chosen.begin(), chosen.end());
    batches_->choose(chosen);
    for (Column& column : columns_) {
      column.at =
          static_cast<int>(std::find(chosen.begin(), chosen.end(), column.at) - chosen.begin());
    }
    if (request.any_order) keep_all();
  }

  bool next(std::vector<std::string_view>& fields) override {
    fields.clear();
    ++row_;
    while (!batch_ || row_ >= batch_->num_rows()) {
      if (!next_batch()) return false;
    }
    ++record_;
    for (Column& column : columns_) fields.push_back(read(column));
    return true;
  }

  std::string location() const override { return text("{} row {}", name_, record_); }

  std::vector<std::string> class_names(const std::string& field) const override {
    for (const Column& column : columns_) {
      if (column.name == field) return column.classes;
    }
    return {};
  }

  std::vector<ArrowColumn> columns() const override {
    std::vector<ArrowColumn> out;
    for (const auto& field : batches_->schema()->fields()) {
      const bool classes = !names_of_classes(*batches_->schema(), field->name()).empty();
      out.push_back({field->name(), classes ? "classes" : field->type()->ToString(),
                     classes ? ArrowColumn::Value::kText : value_of_type(*field->type())});
    }
    return out;
  }

  int64_t rows() const override { return ends_.empty() ? 0 : ends_.back(); }

  void seek(int64_t row) override {
    if (row < 0 || row >= rows()) throw std::out_of_range("an Arrow file has no such row");
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), row);
    use(kept_[static_cast<size_t>(end - ends_.begin())]);
    row_ = row - (*end - batch_->num_rows()) - 1;
    record_ = row - 1;
  }

 private:
  struct Column {
    std::string name;
    ArrowField kind;
    int at;  // index in a batch
    std::shared_ptr<arrow::Array> values;
    std::vector<std::string> classes;
    std::string buffer;
  };

  static const char* type_words(ArrowField kind) {
    if (kind == ArrowField::kBytes) return "bytes or images";
    return kind == ArrowField::kText ? "a string, number or boolean" : "a list of integers";
  }

  int column_of(const std::string& field, ArrowField kind) const {
    const arrow::Schema& schema = *batches_->schema();
    const int at = schema.GetFieldIndex(field);
    if (at < 0) {
      throw DataError(text("'{}' has no field '{}'", name_, field),
                      "it has the fields " + quoted_list(schema.field_names()).substr(0, 300));
    }
    const std::shared_ptr<arrow::DataType>& type = schema.field(at)->type();
    const bool fits = kind == ArrowField::kText    ? has_text(*type)
                      : kind == ArrowField::kBytes ? has_bytes(*type)
                                                   : is_list_of_numbers(*type);
    if (fits) return at;
    throw DataError(text("'{}': field '{}' has the type '{}', {} wanted", name_, field,
                         type->ToString(), type_words(kind)));
  }

  /// Batches of an uncompressed file are views of the file.
  void keep_all() {
    int64_t rows = 0;
    while (next_batch()) {
      if (batch_->num_rows() == 0) continue;
      kept_.push_back(batch_);
      ends_.push_back(rows += batch_->num_rows());
    }
  }

  bool next_batch() {
    row_ = 0;
    batch_ = batches_->next();
    if (!batch_) return false;
    // Arrow does not validate offsets and UTF-8 by itself.
    require(batch_->ValidateFull(), name_);
    use(batch_);
    return true;
  }

  void use(std::shared_ptr<arrow::RecordBatch> batch) {
    batch_ = std::move(batch);
    for (Column& column : columns_) column.values = batch_->column(column.at);
  }

  std::string_view read_bytes(const Column& column) const {
    const auto bytes = bytes_of_value(*column.values, row_);
    if (bytes) return *bytes;
    throw DataError(
        text("{}: field '{}' has the path of an image without its bytes", location(), column.name),
        "save the dataset with its images, as 'push_to_hub' and 'to_parquet' do");
  }

  std::string_view read_numbers(Column& column) const {
    const ListSlice slice = slice_of_list(*column.values, row_);
    column.buffer.clear();
    std::string digits;
    for (int64_t i = slice.first; i < slice.first + slice.size; ++i) {
      int64_t number = 0;
      const std::string_view shown =
          slice.values->IsNull(i) ? "null" : text_of_value(*slice.values, i, digits);
      const auto read = std::from_chars(shown.data(), shown.data() + shown.size(), number);
      if (read.ec != std::errc()) {
        throw DataError(
            text("{}: field '{}' has {}, a 64-bit integer wanted", location(), column.name, shown));
      }
      column.buffer.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    return column.buffer;
  }

  std::string_view read(Column& column) const {
    if (column.values->IsNull(row_)) {
      if (keep_nulls_) return {};
      throw DataError(text("{}: field '{}' is null", location(), column.name));
    }
    if (column.kind == ArrowField::kBytes) return read_bytes(column);
    if (column.kind == ArrowField::kNumbers) return read_numbers(column);
    const std::string_view value = text_of_value(*column.values, row_, column.buffer);
    if (column.classes.empty()) return value;
    for (size_t i = 0; i < column.classes.size(); ++i) {
      if (value == std::to_string(i)) return column.classes[i];
    }
    throw DataError(text("{}: field '{}' has {}, not one of its {} classes", location(),
                         column.name, value, column.classes.size()));
  }

  std::string name_;
  std::unique_ptr<Batches> batches_;
  std::vector<Column> columns_;
  bool keep_nulls_ = false;
  std::shared_ptr<arrow::RecordBatch> batch_;
  int64_t row_ = 0;                                        // of the batch
  int64_t record_ = -1;                                    // of the file
  std::vector<std::shared_ptr<arrow::RecordBatch>> kept_;  // for random access
  std::vector<int64_t> ends_;                              // cumulative rows of kept_
};

}  // namespace
}  // namespace accel

extern "C" __attribute__((visibility("default"))) void accel_arrow_records(
    const accel::ArrowRequest& request, std::unique_ptr<accel::ArrowRecords>& out) {
  try {
    out = std::make_unique<accel::Records>(request);
  } catch (const parquet::ParquetException& error) {
    accel::damaged(request.name, error.what());
  }
}
