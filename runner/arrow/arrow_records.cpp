#include "runner/formats/arrow_records.h"

#include <arrow/array.h>
#include <arrow/array/array_binary.h>
#include <arrow/array/array_dict.h>
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

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace accel {
namespace {

constexpr int64_t kRowsAtOnce = 1024;
constexpr std::string_view kFileMagic = "ARROW1";
constexpr std::string_view kEndOfStream("\xff\xff\xff\xff\0\0\0\0", 8);

[[noreturn]] void damaged(const std::string& name, const std::string& why) {
  throw Error(ExitCode::kData, "'" + name + "' cannot be read: " + why.substr(0, why.find('\n')));
}

void require(const arrow::Status& status, const std::string& name) {
  if (!status.ok()) damaged(name, status.message());
}

template <class T>
T value(arrow::Result<T>&& result, const std::string& name) {
  require(result.status(), name);
  return std::move(result).ValueUnsafe();
}

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

/// Whether text_of_value() takes values of that type.
bool has_text(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) {
    return has_text(*static_cast<const arrow::DictionaryType&>(type).value_type());
  }
  const bool number = arrow::is_integer(type.id()) || type.id() == arrow::Type::FLOAT ||
                      type.id() == arrow::Type::DOUBLE;
  return number || type.id() == arrow::Type::BOOL || type.id() == arrow::Type::STRING ||
         type.id() == arrow::Type::LARGE_STRING || type.id() == arrow::Type::STRING_VIEW;
}

/// A value that is not null, as JSON spells it but without quotes: in the column or in `buffer`.
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
      throw std::logic_error("a column of a type that has no text");
  }
}

/// Gives a file's rows in parts of which each fits into memory.
class Batches {
 public:
  virtual ~Batches() = default;
  virtual std::shared_ptr<arrow::Schema> schema() const = 0;
  /// From now on next() gives these columns of the schema alone, in ascending order.
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
      leaves.push_back(reader_->manifest().schema_fields[static_cast<size_t>(column)].column_index);
    }
    std::vector<int> groups(static_cast<size_t>(reader_->num_row_groups()));
    for (size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<int>(i);
    batches_ = value(reader_->GetRecordBatchReader(groups, leaves), name_);
  }

  std::shared_ptr<arrow::RecordBatch> next() override { return value(batches_->Next(), name_); }

 private:
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
  // A stream that was cut between two batches would pass for a whole one.
  if (stream && !text.ends_with(kEndOfStream)) damaged(request.name, "it has no end");
  return std::make_unique<IpcBatches>(std::move(file), stream, request.name);
}

/// What Hugging Face's datasets write into a schema, as far as it tells of that field.
std::vector<std::string> names_of_classes(const arrow::Schema& schema, const std::string& field) {
  const auto text = schema.metadata() ? schema.metadata()->Get("huggingface")
                                      : arrow::Result<std::string>(arrow::Status::KeyError(""));
  if (!text.ok()) return {};
  const auto told = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json* at = &told;
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
    for (const std::string& field : request.wanted) {
      const int at = column_of(field);
      if (std::find(chosen.begin(), chosen.end(), at) == chosen.end()) chosen.push_back(at);
      columns_.push_back({field, at, {}, names_of_classes(*batches_->schema(), field), {}});
    }
    std::sort(chosen.begin(), chosen.end());
    batches_->choose(chosen);
    for (Column& column : columns_) {
      column.at =
          static_cast<int>(std::find(chosen.begin(), chosen.end(), column.at) - chosen.begin());
    }
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

  std::string place() const override { return name_ + " row " + std::to_string(record_); }

  std::vector<std::string> class_names(const std::string& field) const override {
    for (const Column& column : columns_) {
      if (column.name == field) return column.classes;
    }
    return {};
  }

 private:
  struct Column {
    std::string name;
    int at;  // among those of a batch
    std::shared_ptr<arrow::Array> values;
    std::vector<std::string> classes;
    std::string buffer;
  };

  int column_of(const std::string& field) const {
    const arrow::Schema& schema = *batches_->schema();
    const int at = schema.GetFieldIndex(field);
    if (at < 0) {
      std::string names;
      for (const std::string& name : schema.field_names()) {
        names.append(names.empty() ? "'" : ", '").append(name).append("'");
      }
      throw DataError("'" + name_ + "' has no field '" + field + "'",
                      "it has the fields " + names.substr(0, 300));
    }
    const arrow::DataType& type = *schema.field(at)->type();
    if (has_text(type)) return at;
    throw DataError("'" + name_ + "': field '" + field + "' is of the type '" + type.ToString() +
                    "', not a text, a number, true or false");
  }

  bool next_batch() {
    row_ = 0;
    batch_ = batches_->next();
    if (!batch_) return false;
    // Nothing else looks at the offsets that a file claims, nor whether its texts are UTF-8.
    require(batch_->ValidateFull(), name_);
    for (Column& column : columns_) column.values = batch_->column(column.at);
    return true;
  }

  std::string_view read(Column& column) const {
    if (column.values->IsNull(row_)) {
      throw DataError(place() + ": field '" + column.name + "' is null");
    }
    const std::string_view text = text_of_value(*column.values, row_, column.buffer);
    if (column.classes.empty()) return text;
    for (size_t i = 0; i < column.classes.size(); ++i) {
      if (text == std::to_string(i)) return column.classes[i];
    }
    throw DataError(place() + ": field '" + column.name + "' holds " + std::string(text) +
                    ", which is none of its " + std::to_string(column.classes.size()) + " classes");
  }

  std::string name_;
  std::unique_ptr<Batches> batches_;
  std::vector<Column> columns_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  int64_t row_ = 0;      // of the batch
  int64_t record_ = -1;  // of the file
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
