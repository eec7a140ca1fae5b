#include "data/table.h"

#include <algorithm>

#include "core/error.h"
#include "data/fingerprint.h"
#include "data/rows.h"
#include "data/table_columns.h"
#include "runner/formats/mapped_file.h"

namespace accel {
namespace {

using Fields = std::vector<std::string_view>;

/// A table's text and what its first lines say of it; every walk over it starts afresh.
class TableText {
 public:
  TableText(const TableOptions& options, CsvDialect dialect)
      : path_(options.path.text), file_(map_file(path_)), dialect_(dialect) {
    if (options.delimiter) dialect_.delimiter = (*options.delimiter)[0];
    dialect_.quoting = options.quoting.value_or(dialect_.quoting);
    CsvReader reader = raw();
    Fields first;
    if (!reader.next(first)) throw DataError("'" + path_ + "' is empty");
    width_ = first.size();
    const std::vector<std::string> names(first.begin(), first.end());
    Fields second;
    header_ = options.header.value_or(reader.next(second) &&
                                      looks_like_header({names.begin(), names.end()}, second));
    if (header_) names_ = names;
  }

  ColumnNames columns() const { return {names_, width_, path_}; }
  std::span<const std::byte> bytes() const { return file_.view; }
  const std::string& path() const { return path_; }

  /// At the first record behind the header.
  CsvReader records() const {
    CsvReader reader = raw();
    Fields skipped;
    if (header_) reader.next(skipped);
    return reader;
  }

 private:
  CsvReader raw() const { return {file_.view, dialect_, path_}; }

  std::string path_;
  SharedBytes file_;
  CsvDialect dialect_;
  bool header_ = false;
  size_t width_ = 0;
  std::vector<std::string> names_;
};

/// First walk: counts the rows and meets every category and label.
int64_t scan(const TableText& text, size_t target, std::vector<FeatureColumn>& columns,
             TextSet& labels) {
  const auto meet = [](TextSet& seen, std::string_view value) {
    if (!seen.contains(value)) seen.emplace(value);
  };
  int64_t rows = 0;
  CsvReader reader = text.records();
  for (Fields fields; reader.next(fields); ++rows) {
    for (FeatureColumn& column : columns) {
      if (column.one_hot) meet(column.seen, fields[column.position]);
    }
    meet(labels, fields[target]);
  }
  if (rows == 0) throw DataError("'" + text.path() + "' has no rows");
  return rows;
}

/// Second walk: turns fields into numbers.
class TableEncoder {
 public:
  TableEncoder(const ColumnNames& names, std::optional<double> fill) : names_(names), fill_(fill) {}

  float number(const CsvReader& reader, size_t column, std::string_view field) const {
    if (field.empty() && fill_) return static_cast<float>(*fill_);
    const std::optional<float> value = field_number(field);
    if (!value) {
      refuse(reader, column, field, "not a number",
             field.empty() ? "'fill: 0' gives empty fields a value"
                           : "list it under 'one_hot', or leave it out of 'features'; columns of "
                             "text are not read");
    }
    return *value;
  }

  int64_t label(const CsvReader& reader, size_t column, std::string_view field,
                const LabelMap& labels) const {
    const std::optional<int64_t> value = labels.find(field);
    if (!value) refuse(reader, column, field, "none of the values the recipe lists", "");
    return *value;
  }

  void features(const CsvReader& reader, const std::vector<FeatureColumn>& columns,
                const Fields& fields, float* out) const {
    for (const FeatureColumn& column : columns) {
      const std::string_view field = fields[column.position];
      if (column.one_hot) {
        std::fill_n(out, column.width(), 0.0f);
        out[label(reader, column.position, field, column.categories)] = 1;
      } else {
        *out = number(reader, column.position, field);
      }
      out += column.width();
    }
  }

 private:
  [[noreturn]] void refuse(const CsvReader& reader, size_t column, std::string_view field,
                           const std::string& problem, const std::string& hint) const {
    throw DataError(reader.place() + ": column " + names_.describe(column) + " holds '" +
                        std::string(field.substr(0, 60)) + "', " + problem,
                    hint);
  }

  const ColumnNames& names_;
  std::optional<double> fill_;
};

}  // namespace

Schema<TableOptions> TableOptions::schema() {
  const Rule<Auto<std::string>> one_character = {
      [](const Auto<std::string>& v) {
        return !v || (v.value->size() == 1 && std::string("\"\r\n").find(*v) == std::string::npos);
      },
      "a single character that is no quote and no line end", "\"maxLength\": 4"};
  return Schema<TableOptions>()
      .field("path", &TableOptions::path, "The file.")
      .required()
      .field("header", &TableOptions::header,
             "Whether the first line names the columns. auto: it has no number, the second has.")
      .field("delimiter", &TableOptions::delimiter,
             "What stands between fields. auto: a comma in csv, a tab in tsv.", one_character)
      .field("quoting", &TableOptions::quoting,
             "Whether \"...\" may enclose a field. auto: true in csv, false in tsv.")
      .field("features", &TableOptions::features,
             "Columns that are inputs, by name or by number from 0; empty: all but the target.")
      .field("one_hot", &TableOptions::one_hot,
             "Features that are categories, each with its values in order, or [] to use those "
             "found, sorted.")
      .field("fill", &TableOptions::fill, "What an empty field of numbers counts as.")
      .field("target", &TableOptions::target, "Column of the target, by name or by number from 0.")
      .required()
      .field("target_type", &TableOptions::target_type,
             "classes: labels to tell apart. number: for regression.")
      .field("labels", &TableOptions::labels,
             "Class labels in the order of their numbers; empty: those found, sorted. Labels that "
             "are whole numbers from 0 number themselves.");
}

Table::Table(const TableOptions& options, CsvDialect dialect) {
  const TableText text(options, dialect);
  const ColumnNames names = text.columns();
  const size_t target = names.find(options.target, "target");
  std::vector<FeatureColumn> columns = feature_columns(options, names, target);
  TextSet seen;
  const int64_t rows = scan(text, target, columns, seen);
  int64_t width = 0;
  for (FeatureColumn& column : columns) {
    if (column.one_hot && column.categories.count() == 0) {
      column.categories = LabelMap::given({column.seen.begin(), column.seen.end()}, "one_hot");
    }
    width += static_cast<int64_t>(column.width());
  }
  const bool classes = options.target_type == TargetType::kClasses;
  const LabelMap labels =
      options.labels.empty() ? LabelMap::found(seen) : LabelMap::given(options.labels, "labels");
  features_ = Array(DType::kF32, {rows, width});
  targets_ = Array(classes ? DType::kI64 : DType::kF32, {rows});
  const TableEncoder encoder(names, options.fill);
  CsvReader reader = text.records();
  int64_t row = 0;
  for (Fields fields; reader.next(fields); ++row) {
    encoder.features(reader, columns, fields, features_.mutable_as<float>().data() + row * width);
    const std::string_view field = fields[target];
    if (classes) {
      targets_.mutable_as<int64_t>()[row] = encoder.label(reader, target, field, labels);
    } else {
      targets_.mutable_as<float>()[row] = encoder.number(reader, target, field);
    }
  }
  if (classes) {
    classes_ = labels.count();
    labels_ = labels.names();
  }
  fingerprint_ = Fingerprint().add_content(text.bytes()).text();
}

Sample Table::sample(int64_t index) const {
  return {row_of(features_, index), row_of(targets_, index)};
}

DataShape Table::shape() const {
  return {.input = {features_.shape()[1]},
          .target_type = targets_.type(),
          .classes = classes_,
          .labels = labels_};
}

}  // namespace accel
