#include "formats/arrow/arrow_records.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
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
#include "formats/arrow/arrow_values.h"
#include "formats/arrow/class_names.h"
#include "formats/arrow/range_source.h"

namespace accel {
namespace {

ArrowColumn::Value value_of_type(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) {
    return value_of_type(*static_cast<const arrow::DictionaryType&>(type).value_type());
  }
  if (arrow::is_integer(type.id())) return ArrowColumn::Value::kInteger;
  if (type.id() == arrow::Type::BOOL) return ArrowColumn::Value::kBoolean;
  if (arrow::is_floating(type.id()) && has_text(type)) return ArrowColumn::Value::kNumber;
  if (has_text(type)) return ArrowColumn::Value::kText;
  if (has_bytes(type)) return ArrowColumn::Value::kBytes;
  if (is_list_of_numbers(type)) return ArrowColumn::Value::kIntegers;
  const arrow::DataType* const item = item_type(type);
  return item && holds_text(*item) ? ArrowColumn::Value::kTexts : ArrowColumn::Value::kOther;
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
  /// `ranges`: the file, if it is read by ranges.
  ParquetBatches(std::shared_ptr<arrow::io::RandomAccessFile> file, const std::string& name,
                 const RangeFile* ranges)
      : name_(name), ranges_(ranges) {
    parquet::ArrowReaderProperties properties(/*use_threads=*/false);
    properties.set_batch_size(kRowsAtOnce);
    if (ranges_) properties.set_pre_buffer(false);  // read_ahead() does it, within a limit
    parquet::arrow::FileReaderBuilder builder;
    require(builder.Open(std::move(file)), name_);
    reader_ = value(
        builder.memory_pool(arrow::system_memory_pool())->properties(properties)->Build(), name_);
    require(reader_->GetSchema(&schema_), name_);
  }

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  void choose(const std::vector<int>& columns) override {
    leaves_.clear();
    for (const int column : columns) {
      add_leaves(reader_->manifest().schema_fields[static_cast<size_t>(column)], leaves_);
    }
    std::vector<int> groups(static_cast<size_t>(reader_->num_row_groups()));
    for (size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<int>(i);
    batches_ = value(reader_->GetRecordBatchReader(groups, leaves_), name_);
  }

  std::shared_ptr<arrow::RecordBatch> next() override {
    // Not before: a reader may be opened for its schema alone.
    if (ranges_ && !is_announced_) announce();
    return value(batches_->Next(), name_);
  }

 private:
  /// The chunks of the chosen columns, group by group.
  void announce() {
    std::vector<std::pair<int64_t, int64_t>> chunks;
    const auto metadata = reader_->parquet_reader()->metadata();
    for (int group = 0; group < metadata->num_row_groups(); ++group) {
      const auto rows = metadata->RowGroup(group);
      for (const int leaf : leaves_) {
        const auto chunk = rows->ColumnChunk(leaf);
        const int64_t dictionary =
            chunk->has_dictionary_page() ? chunk->dictionary_page_offset() : 0;
        const int64_t data = chunk->data_page_offset();
        const int64_t first = dictionary > 0 ? std::min(dictionary, data) : data;
        const int64_t bytes = chunk->total_compressed_size();
        // Those of a damaged file are refused when they are read.
        if (first >= 0 && bytes > 0 && bytes <= ranges_->size() - first) {
          chunks.emplace_back(first, bytes);
        }
      }
    }
    is_announced_ = true;
    ranges_->read_ahead(chunks);
  }

  static void add_leaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
    if (field.is_leaf()) leaves.push_back(field.column_index);
    for (const parquet::arrow::SchemaField& child : field.children) add_leaves(child, leaves);
  }

  std::string name_;
  const RangeFile* ranges_;
  bool is_announced_ = false;
  std::vector<int> leaves_;
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

/// `source`: the ranges of the request, if it has them.
std::unique_ptr<Batches> open_batches(const ArrowRequest& request,
                                      const std::shared_ptr<RangeSource>& source) {
  if (source) return std::make_unique<ParquetBatches>(source, request.name, request.ranges);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(request.file.data());
  const std::string_view text(reinterpret_cast<const char*>(bytes), request.file.size());
  auto file = std::make_shared<arrow::io::BufferReader>(
      std::make_shared<arrow::Buffer>(bytes, static_cast<int64_t>(request.file.size())));
  if (request.format == ArrowFormat::kParquet) {
    return std::make_unique<ParquetBatches>(std::move(file), request.name, nullptr);
  }
  const bool stream = !text.starts_with(kFileMagic);
  // Arrow accepts a stream that is truncated between two batches.
  if (stream && !text.ends_with(kEndOfStream)) damaged(request.name, "it has no end");
  return std::make_unique<IpcBatches>(std::move(file), stream, request.name);
}

class Records final : public ArrowRecords {
 public:
  explicit Records(const ArrowRequest& request)
      : name_(request.name),
        source_(request.ranges ? std::make_shared<RangeSource>(*request.ranges) : nullptr),
        batches_(reading([&] { return open_batches(request, source_); })) {
    std::vector<int> chosen;
    for (size_t i = 0; i < request.wanted.size(); ++i) {
      const std::string& field = request.wanted[i];
      const ArrowField kind = request.kinds.empty() ? ArrowField::kText : request.kinds.at(i);
      const int at = column_of(field, kind);
      if (std::find(chosen.begin(), chosen.end(), at) == chosen.end()) chosen.push_back(at);
      columns_.push_back({field, kind, at, {}, classes_for(field, kind), {}});
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
      const arrow::Schema& schema = *batches_->schema();
      const std::string& name = field->name();
      if (!names_of_classes(schema, name, false).empty()) {
        out.push_back({name, "classes", ArrowColumn::Value::kText});
      } else if (!names_of_classes(schema, name, true).empty()) {
        out.push_back({name, "list of classes", ArrowColumn::Value::kTexts});
      } else {
        out.push_back({name, field->type()->ToString(), value_of_type(*field->type())});
      }
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

  /// The error of a range is its own, and not the one that Arrow makes of it.
  template <class Read>
  auto reading(const Read& read) const -> decltype(read()) {
    try {
      return read();
    } catch (const std::exception&) {
      if (source_) source_->rethrow();
      throw;
    }
  }

  static bool is_list(ArrowField kind) {
    return kind == ArrowField::kList || kind == ArrowField::kNames;
  }

  /// Names that replace the numbers of a field, or of its lists.
  std::vector<std::string> classes_for(const std::string& field, ArrowField kind) const {
    if (kind != ArrowField::kText && kind != ArrowField::kNames) return {};
    return names_of_classes(*batches_->schema(), field, kind == ArrowField::kNames);
  }

  static const char* type_words(ArrowField kind) {
    switch (kind) {
      case ArrowField::kText:
        return "a string, number or boolean";
      case ArrowField::kBytes:
        return "bytes or images";
      case ArrowField::kNumbers:
        return "a list of integers";
      case ArrowField::kList:
      case ArrowField::kNames:
        return "a list of strings, numbers or booleans";
    }
    return "";
  }

  int column_of(const std::string& field, ArrowField kind) const {
    const arrow::Schema& schema = *batches_->schema();
    const int at = schema.GetFieldIndex(field);
    if (at < 0) {
      throw DataError(text("'{}' has no field '{}'", name_, field),
                      "it has the fields " + quoted_list(schema.field_names()).substr(0, 300));
    }
    const std::shared_ptr<arrow::DataType>& type = schema.field(at)->type();
    const arrow::DataType* const item = item_type(*type);
    const bool fits = kind == ArrowField::kText    ? has_text(*type)
                      : kind == ArrowField::kBytes ? has_bytes(*type)
                      : is_list(kind)              ? item && has_text(*item)
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
    batch_ = reading([this] { return batches_->next(); });
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

  std::string_view read_list(Column& column) const {
    const ListSlice slice = slice_of_list(*column.values, row_);
    auto list = nlohmann::json::array();
    std::string digits;
    for (int64_t i = slice.first; i < slice.first + slice.size; ++i) {
      if (slice.values->IsNull(i)) {
        list.push_back(nullptr);
        continue;
      }
      const std::string_view shown = text_of_value(*slice.values, i, digits);
      const bool quoted = !column.classes.empty() || holds_text(*slice.values->type());
      list.push_back(quoted ? nlohmann::json(name_of_class(column, shown))
                            : nlohmann::json::parse(shown, nullptr, /*allow_exceptions=*/false));
    }
    // Invalid UTF-8 has been refused by next_batch().
    column.buffer = list.dump();
    return column.buffer;
  }

  /// The value itself in a field without classes.
  std::string_view name_of_class(const Column& column, std::string_view value) const {
    if (column.classes.empty()) return value;
    for (size_t i = 0; i < column.classes.size(); ++i) {
      if (value == std::to_string(i)) return column.classes[i];
    }
    throw DataError(text("{}: field '{}' has {}, not one of its {} classes", location(),
                         column.name, value, column.classes.size()));
  }

  std::string_view read(Column& column) const {
    if (column.values->IsNull(row_)) {
      if (keep_nulls_) return {};
      throw DataError(text("{}: field '{}' is null", location(), column.name));
    }
    if (column.kind == ArrowField::kBytes) return read_bytes(column);
    if (column.kind == ArrowField::kNumbers) return read_numbers(column);
    if (is_list(column.kind)) return read_list(column);
    return name_of_class(column, text_of_value(*column.values, row_, column.buffer));
  }

  std::string name_;
  std::shared_ptr<RangeSource> source_;
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
