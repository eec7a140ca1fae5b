#include "data/datasets/table.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/label_lists.h"
#include "data/datasets/rows.h"
#include "data/datasets/table_check.h"
#include "data/datasets/table_columns.h"
#include "data/datasets/table_numbers.h"
#include "data/datasets/table_text.h"
#include "data/datasets/text/text_columns.h"
#include "formats/records/text_encoding.h"

namespace accel {
namespace {

using Fields = std::vector<std::string_view>;

/// The position of the target, and whether rows without one are left out.
TargetColumn target_of(const TableOptions& options, const DatasetContext& context,
                       const ColumnNames& names) {
  TargetColumn target{.type = options.target_type};
  if (!context.targets) return target;
  for (const std::string& name : options.target.names) {
    target.positions.push_back(names.find(name, "target"));
  }
  const auto drops = [](const FillRule& rule) { return rule.kind == FillRule::Kind::kDrop; };
  target.drop = options.fill.all && drops(*options.fill.all);
  for (const auto& [name, rule] : options.fill.columns) {
    const std::optional<size_t> position = names.look_up(name);
    target.drop = target.drop || (position && target.has(*position) && drops(rule));
  }
  return target;
}

std::vector<FeatureColumn> columns_of(const TableOptions& options, const DatasetContext& context,
                                      const ColumnNames& names) {
  if (!options.text.empty()) return {};
  std::vector<size_t> targets;
  for (const std::string& name : options.target.names) {
    const auto position = context.targets ? names.find(name, "target") : names.look_up(name);
    if (position) targets.push_back(*position);
  }
  return feature_columns(options, names, targets);
}

}  // namespace

/// A table's text with everything that decides on its records; it can be read again.
class TableReading {
 public:
  TableReading(const TableOptions& options, const DatasetContext& context, CsvDialect dialect,
               SharedBytes content)
      : text(options, dialect, std::move(content)),
        names(text.columns()),
        target(target_of(options, context, names)),
        columns(columns_of(options, context, names)),
        check(options, names, columns, target),
        train(context.train),
        on_bad_sample_(options.on_bad_sample) {}

  /// Calls `use` with the reader and the fields of each record in use. The same records go to `bad`
  /// in each pass.
  template <class Use>
  void each(BadSamples& bad, const Use& use) const {
    CsvReader reader = text.records();
    Fields fields;
    for (bool more = true; more;) {
      bool good = false;
      try {
        more = reader.next(fields);
        good = more && !check.drops(fields);
        if (good && bad.skips()) check.require_good(reader, fields);
      } catch (const DataError& error) {
        bad.leave_out(error);
        continue;
      }
      if (good) use(reader, fields);
    }
  }

  /// A pass after the first one.
  template <class Use>
  void each(const Use& use) const {
    BadSamples counted_before(on_bad_sample_, text.path());
    each(counted_before, use);
  }

  /// First pass: reports all faults, counts rows and collects labels and categories.
  void scan(BadSamples& bad, ColumnFits& fits) {
    TableFaults faults;
    std::vector<TextSet> seen(columns.size());
    each(bad, [&](const CsvReader& reader, const Fields& fields) {
      ++rows;
      bool good = true;
      check.each_fault(fields, [&](size_t column, FieldFault fault) {
        good = false;
        faults.add(reader, column, fields[column], fault);
      });
      if (!good) return;
      for (size_t i = 0; i < columns.size(); ++i) meet(columns[i], fields, seen[i]);
      meet_target(fields);
      fits.add(fields);
    });
    count_dropped();
    faults.check(check, text.path(), rows + dropped_rows);
    for (size_t i = 0; i < columns.size(); ++i) {
      FeatureColumn& column = columns[i];
      if (column.kind != ColumnKind::kCategory || column.listed) continue;
      const bool constant = column.rule && column.rule->kind == FillRule::Kind::kConstant;
      if (constant) seen[i].insert(column.rule->constant);
      column.categories = LabelMap::given({seen[i].begin(), seen[i].end()}, "one_hot");
    }
  }

  TableText text;
  ColumnNames names;
  TargetColumn target;
  std::vector<FeatureColumn> columns;
  RecordCheck check;
  bool train;
  int64_t rows = 0;
  TextSet labels;
  int64_t dropped_rows = 0;
  std::map<size_t, int64_t> dropped;  ///< missing values by column of the rows left out

 private:
  static void meet(std::string_view value, TextSet& seen) {
    if (!seen.contains(value)) seen.emplace(value);
  }
  void meet(const FeatureColumn& column, const Fields& fields, TextSet& seen) const {
    if (column.kind != ColumnKind::kCategory) return;
    if (!check.is_missing(column, fields[column.position])) meet(fields[column.position], seen);
  }

  void meet_target(const Fields& fields) {
    if (target.positions.empty()) return;
    const std::string_view field = fields[target.positions.front()];
    if (target.lists_labels()) {
      const std::vector<std::string> list = labels_in(field).value();
      for (const std::string& label : list) meet(label, labels);
    } else if (target.type == TargetType::kClasses) {
      meet(field, labels);
    }
  }

  /// Rows that a rule leaves out; unreadable ones are counted elsewhere.
  void count_dropped() {
    if (!target.drop && std::none_of(columns.begin(), columns.end(), [](const auto& column) {
          return column.rule && column.rule->kind == FillRule::Kind::kDrop;
        })) {
      return;
    }
    CsvReader reader = text.records();
    Fields fields;
    for (bool more = true; more;) {
      try {
        more = reader.next(fields);
      } catch (const DataError&) {
        continue;
      }
      if (more && check.drops(fields, [&](size_t column) { ++dropped[column]; })) ++dropped_rows;
    }
  }

  OnBadSample on_bad_sample_;
};

namespace {

class NumberInputs final : public TableInputs {
 public:
  NumberInputs(const TableReading& reading, bool implicit)
      : table_(reading.columns, reading.check, implicit) {
    table_.begin(reading.rows);
  }

  void add(const CsvReader& reader, const Fields& fields) override { table_.add(reader, fields); }
  void finish() override {}
  int64_t size() const override { return table_.features().shape()[0]; }
  int64_t row(int64_t index) const override { return index; }
  Sample sample(int64_t index) const override { return {row_of(table_.features(), index), {}}; }
  std::optional<int64_t> length(int64_t) const override { return std::nullopt; }
  DataShape described(DataShape shape) const override {
    shape.input = {table_.width()};
    return shape;
  }
  std::string identity() const override { return ""; }

  FeatureTable& table() { return table_; }

 private:
  FeatureTable table_;
};

class TextInputs final : public TableInputs {
 public:
  TextInputs(const TableOptions& options, const TableText& table, const ColumnNames& names,
             BadSamples& bad)
      : bad_(bad),
        first_(names.find(options.text.front(), "text")),
        second_(names.find(options.text.back(), "text")),
        texts_(options, load_tokenizer(options.tokenizer.text), {table.bytes()},
               table.reading() + std::to_string(first_) + "," + std::to_string(second_) +
                   left_out_by(options)) {}

  void add(const CsvReader& reader, const Fields& fields) override {
    texts_.add({fields[first_], fields[second_], reader.location()}, bad_);
  }
  void finish() override { texts_.finish(bad_); }
  int64_t size() const override { return texts_.size(); }
  int64_t row(int64_t index) const override { return texts_.row(index); }
  Sample sample(int64_t index) const override { return texts_.sample(index); }
  std::optional<int64_t> length(int64_t index) const override { return texts_.length(index); }
  DataShape described(DataShape shape) const override { return texts_.described(std::move(shape)); }
  std::string identity() const override { return texts_.identity(); }

 private:
  /// The check that decides on skipped rows, if rows may be skipped.
  static std::string left_out_by(const TableOptions& options) {
    if (!options.on_bad_sample.most) return "";
    std::string out = " skip ";
    out.append(options.target.text());
    out.append(1, ' ').append(EnumNames<TargetType>::kValues[size_t(options.target_type)].second);
    for (const std::string& label : options.labels) out.append(1, '\0').append(label);
    if (options.na_values == default_na_values()) return out;
    out.append(" missing");
    for (const std::string& value : options.na_values) out.append(1, '\0').append(value);
    return out;
  }

  BadSamples& bad_;  // owned by the table
  size_t first_;
  size_t second_;  // second text of a pair; equal to the first for single texts, and not read
  TextColumns texts_;
};

/// Of classes and of lists of labels; those of several columns of 0 and 1 are the columns' names.
LabelMap labels_of(const TableOptions& options, const TableReading& reading) {
  if (!options.labels.empty()) return LabelMap::given(options.labels, "labels");
  const TargetColumn& target = reading.target;
  if (target.type != TargetType::kLabels || target.lists_labels()) {
    return LabelMap::found(reading.labels);
  }
  std::vector<std::string> names;
  for (const size_t position : target.positions) names.push_back(reading.names.name(position));
  return LabelMap::given(names, "target");
}

/// Zeros: i64 classes [rows], or f32 numbers [rows] or [rows, numbers].
Array empty_targets(const TargetColumn& target, int64_t labels, int64_t rows) {
  const bool classes = target.type == TargetType::kClasses;
  Shape shape = {rows};
  if (target.lists_labels()) {
    shape.push_back(labels);
  } else if (target.positions.size() > 1) {
    shape.push_back(static_cast<int64_t>(target.positions.size()));
  }
  Array out(classes ? DType::kI64 : DType::kF32, shape);
  std::fill_n(out.mutable_data(), out.bytes(), std::byte{0});
  return out;
}

}  // namespace

Table::Table(const TableOptions& options, const DatasetContext& context, CsvDialect dialect)
    : Table(options, context, dialect, as_utf8(map_file(options.path.text), options.path.text)) {}

Table::Table(const TableOptions& options, const DatasetContext& context, CsvDialect dialect,
             SharedBytes content)
    : bad_(options.on_bad_sample, options.path.text),
      reading_(std::make_unique<TableReading>(options, context, dialect, std::move(content))) {
  TableReading& reading = *reading_;
  ColumnFits fits(reading.columns, reading.check);
  reading.scan(bad_, fits);
  if (reading.rows == 0 && reading.dropped_rows > 0) {
    throw DataError(accel::text("all {} rows of '{}' are left out: each lacks a value",
                                reading.dropped_rows, reading.text.path()),
                    "give 'fill' another rule than drop");
  }
  if (reading.rows == 0 && bad_.count() == 0) {
    throw DataError(accel::text("'{}' has a header line, but no rows", reading.text.path()),
                    "if its line is a row, write 'header: false'");
  }
  if (options.text.empty()) {
    auto inputs = std::make_unique<NumberInputs>(reading, options.features.empty());
    numbers_ = &inputs->table();
    inputs_ = std::move(inputs);
  } else {
    inputs_ = std::make_unique<TextInputs>(options, reading.text, reading.names, bad_);
  }
  const TargetColumn& target = reading.target;
  const LabelMap labels = labels_of(options, reading);
  targets_ = empty_targets(target, labels.count(), reading.rows);
  size_t row = 0;
  reading.each([&](const CsvReader& reader, const Fields& fields) {
    inputs_->add(reader, fields);
    set_target(reading, labels, fields, row++);
  });
  inputs_->finish();
  if (numbers_) numbers_->fill(fits, /*partial=*/!reading.train);
  bad_.tell(Table::size());
  if (!target.positions.empty()) {
    labels_ = labels.names();
    labels_found_ = labels.is_found();
  }
  if (!target.positions.empty() && target.type == TargetType::kClasses) classes_ = labels.count();
  Fingerprint fingerprint;
  fingerprint.add_content(reading.text.bytes());
  if (const std::string identity = inputs_->identity(); !identity.empty())
    fingerprint.add(identity);
  fingerprint_ = fingerprint.text();
}

Table::~Table() = default;

void Table::set_target(const TableReading& reading, const LabelMap& labels, const Fields& fields,
                       size_t row) {
  const TargetColumn& target = reading.target;
  if (target.positions.empty()) return;
  const std::string_view field = fields[target.positions.front()];
  if (target.type == TargetType::kClasses) {
    targets_.mutable_as<int64_t>()[row] = labels.find(field).value();
    return;
  }
  const size_t width = targets_.shape().size() > 1 ? static_cast<size_t>(targets_.shape()[1]) : 1;
  const auto values = targets_.mutable_as<float>().subspan(row * width, width);
  if (target.lists_labels()) {
    const std::vector<std::string> list = labels_in(field).value();
    for (const std::string& label : list) {
      values[static_cast<size_t>(labels.find(label).value())] = 1;
    }
    return;
  }
  for (size_t i = 0; i < width; ++i) {
    const std::string_view value = fields[target.positions[i]];
    values[i] =
        target.type == TargetType::kLabels
            ? label_flag(value).value()
            : static_cast<float>(parse_field_number(value, reading.check.decimal()).value());
  }
}

Sample Table::sample(int64_t index) const {
  Sample sample = inputs_->sample(index);
  sample.target = row_of(targets_, inputs_->row(index));
  return sample;
}

std::optional<Columns> Table::columns() const {
  if (!numbers_) return std::nullopt;
  return Columns{numbers_->features(), targets_};
}

DataShape Table::shape() const {
  return inputs_->described({.target = {targets_.shape().begin() + 1, targets_.shape().end()},
                             .target_type = targets_.type(),
                             .classes = classes_,
                             .labels = labels_,
                             .labels_found = labels_found_});
}

int64_t Table::class_of(int64_t index) const {
  return targets_.as<int64_t>()[static_cast<size_t>(inputs_->row(index))];
}

template <class Values>
Values Table::of_samples(const Values& of_rows) const {
  Values out;
  for (int64_t i = 0; i < size(); ++i) {
    out.push_back(of_rows[static_cast<size_t>(inputs_->row(i))]);
  }
  return out;
}

std::vector<uint64_t> Table::row_keys(const std::string& column) const {
  const size_t position = reading_->names.find(column, "group");
  std::vector<uint64_t> of_rows;
  reading_->each([&](const CsvReader&, const Fields& fields) {
    of_rows.push_back(Fingerprint().add(fields[position]).value());
  });
  return of_samples(of_rows);
}

std::vector<double> Table::row_numbers(const std::string& column) const {
  const size_t position = reading_->names.find(column, "curriculum");
  std::vector<double> of_rows;
  reading_->each([&](const CsvReader& reader, const Fields& fields) {
    const auto number = parse_field_number(fields[position], reading_->check.decimal());
    if (!number) {
      throw DataError(accel::text("{}: column '{}' of 'curriculum' holds '{}', not a number",
                                  reader.location(), column, fields[position]));
    }
    of_rows.push_back(*number);
  });
  return of_samples(of_rows);
}

/// Makes the features again, after the categories have changed.
void Table::encode() {
  numbers_->begin(reading_->rows);
  reading_->each(
      [this](const CsvReader& reader, const Fields& fields) { numbers_->add(reader, fields); });
}

void Table::fit(std::span<const int64_t> rows) {
  if (!numbers_) return;
  ColumnFits fits(reading_->columns, reading_->check);
  if (!fits.needed()) return;
  int64_t row = 0;
  reading_->each([&](const CsvReader&, const Fields& fields) {
    const bool wanted = !rows.empty() && rows.front() == row++;
    if (!wanted) return;
    rows = rows.subspan(1);
    fits.add(fields);
  });
  numbers_->fill(fits, /*partial=*/false);
}

std::string Table::fitted() const {
  return numbers_ ? numbers_->fitted() : "";
}

void Table::use_fitted(const std::string& values) {
  if (!numbers_) return;
  if (numbers_->take_fitted(values)) encode();
  numbers_->apply();
}

std::vector<std::string> Table::fitted_notes() const {
  std::vector<std::string> notes;
  const int64_t records = reading_->rows + reading_->dropped_rows;
  for (const auto& [column, count] : reading_->dropped) {
    notes.push_back(accel::text("{}: {} of {} missing, rows left out", reading_->names.name(column),
                                count, records));
  }
  if (!numbers_) return notes;
  for (size_t i = 0; i < numbers_->columns().size(); ++i) {
    const FeatureColumn& column = numbers_->columns()[i];
    if (numbers_->missing(i) == 0) continue;
    const bool constant = column.rule->kind == FillRule::Kind::kConstant;
    notes.push_back(accel::text(
        "{}: {} of {} missing, filled with {}{}", column.name, numbers_->missing(i), records,
        constant ? "" : accel::text("the {} ", to_string(*column.rule)), numbers_->value_text(i)));
  }
  return notes;
}

}  // namespace accel
