#include "runner/formats/arrow_records.h"

#include <arrow/array.h>
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
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "runner/arrow/arrow_values.h"

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
    for (size_t i = 0; i < request.wanted.size(); ++i) {
      const std::string& field = request.wanted[i];
      const ArrowField kind = request.kinds.empty() ? ArrowField::kText : request.kinds.at(i);
      const int at = column_of(field, kind);
      if (std::find(chosen.begin(), chosen.end(), at) == chosen.end()) chosen.push_back(at);
      columns_.push_back({field, kind, at, {}, names_of_classes(*batches_->schema(), field), {}});
    }
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

  std::string place() const override { return name_ + " row " + std::to_string(record_); }

  std::vector<std::string> class_names(const std::string& field) const override {
    for (const Column& column : columns_) {
      if (column.name == field) return column.classes;
    }
    return {};
  }

  int64_t rows() const override { return ends_.empty() ? 0 : ends_.back(); }

  void go_to(int64_t row) override {
    if (row < 0 || row >= rows()) {
      throw DataError("'" + name_ + "' has " + std::to_string(rows()) + " rows, and row " +
                          std::to_string(row) + " is wanted",
                      "save the dataset once more");
    }
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), row);
    use(kept_[static_cast<size_t>(end - ends_.begin())]);
    row_ = row - (*end - batch_->num_rows()) - 1;
    record_ = row - 1;
  }

 private:
  struct Column {
    std::string name;
    ArrowField kind;
    int at;  // among those of a batch
    std::shared_ptr<arrow::Array> values;
    std::vector<std::string> classes;
    std::string buffer;
  };

  static const char* words_for(ArrowField kind) {
    if (kind == ArrowField::kBytes) return "bytes or images";
    return kind == ArrowField::kText ? "a text, a number, true or false"
                                     : "a list of whole numbers";
  }

  int column_of(const std::string& field, ArrowField kind) const {
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
    const std::shared_ptr<arrow::DataType>& type = schema.field(at)->type();
    const bool fits = kind == ArrowField::kText    ? has_text(*type)
                      : kind == ArrowField::kBytes ? has_bytes(*type)
                                                   : is_list_of_numbers(*type);
    if (fits) return at;
    throw DataError("'" + name_ + "': field '" + field + "' is of the type '" + type->ToString() +
                    "', not " + words_for(kind));
  }

  /// Batches of an uncompressed file are views of it.
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
    // Nothing else looks at the offsets that a file claims, nor whether its texts are UTF-8.
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
        place() + ": field '" + column.name + "' tells where an image lies and has none",
        "save the dataset with its images in it, as 'push_to_hub' and 'to_parquet' do");
  }

  std::string_view read_numbers(Column& column) const {
    const ListPart part = part_of_list(*column.values, row_);
    column.buffer.clear();
    std::string digits;
    for (int64_t i = part.first; i < part.first + part.size; ++i) {
      int64_t number = 0;
      const std::string_view text =
          part.values->IsNull(i) ? "null" : text_of_value(*part.values, i, digits);
      const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
      if (read.ec != std::errc()) {
        throw DataError(place() + ": field '" + column.name + "' holds " + std::string(text) +
                        ", which is no number of 64 bits");
      }
      column.buffer.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    return column.buffer;
  }

  std::string_view read(Column& column) const {
    if (column.values->IsNull(row_)) {
      throw DataError(place() + ": field '" + column.name + "' is null");
    }
    if (column.kind == ArrowField::kBytes) return read_bytes(column);
    if (column.kind == ArrowField::kNumbers) return read_numbers(column);
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
  int64_t row_ = 0;                                        // of the batch
  int64_t record_ = -1;                                    // of the file
  std::vector<std::shared_ptr<arrow::RecordBatch>> kept_;  // where any order was asked for
  std::vector<int64_t> ends_;                              // of those, in rows
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
