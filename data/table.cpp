#include "data/table.h"

#include <algorithm>

#include "core/error.h"
#include "data/fingerprint.h"
#include "data/rows.h"
#include "data/table_columns.h"

namespace accel {
namespace {

using Fields = std::vector<std::string_view>;

/// A table's text and what its first lines say of it; every walk over it starts afresh.
class TableText {
 public:
  TableText(const TableOptions& options, CsvDialect dialect, SharedBytes file)
      : path_(options.path.text), file_(std::move(file)), dialect_(dialect) {
    if (options.delimiter) dialect_.delimiter = (*options.delimiter)[0];
    dialect_.quoting = options.quoting.value_or(dialect_.quoting);
    CsvReader reader = raw();
    Fields first;
    if (!reader.next(first)) throw DataError("'" + path_ + "' is empty");
    width_ = first.size();
    const std::vector<std::string> names(first.begin(), first.end());
    header_ = options.header.value_or(shows_header(reader, {names.begin(), names.end()}, options));
    if (header_) names_ = names;
  }

  ColumnNames columns() const { return {names_, width_, path_}; }
  std::span<const std::byte> bytes() const { return file_.view; }
  const std::string& path() const { return path_; }
  /// What else than the content decides on the fields.
  std::string reading() const {
    return std::string("table ") + dialect_.delimiter + (dialect_.quoting ? "q" : "") +
           (header_ ? "h" : "") + " ";
  }

  /// At the first record behind the header.
  CsvReader records() const {
    CsvReader reader = raw();
    Fields skipped;
    if (header_) reader.next(skipped);
    return reader;
  }

 private:
  /// By the next record that can be read.
  bool shows_header(CsvReader& reader, const Fields& first, const TableOptions& options) const {
    BadSamples counted_later(options.on_bad_sample, path_);
    Fields second;
    while (true) {
      try {
        return reader.next(second) && looks_like_header(first, second);
      } catch (const DataError& error) {
        counted_later.leave_out(error);
      }
    }
  }

  CsvReader raw() const { return {file_.view, dialect_, path_}; }

  std::string path_;
  SharedBytes file_;
  CsvDialect dialect_;
  bool header_ = false;
  size_t width_ = 0;
  std::vector<std::string> names_;
};

/// Turns fields into numbers.
class TableEncoder {
 public:
  TableEncoder(ColumnNames names, std::optional<double> fill)
      : names_(std::move(names)), fill_(fill) {}

  float number(const CsvReader& reader, size_t column, std::string_view field) const {
    if (field.empty() && fill_) return static_cast<float>(*fill_);
    const std::optional<float> value = field_number(field);
    if (!value) {
      refuse(reader, column, field, "not a number",
             field.empty() ? "'fill: 0' gives empty fields a value"
                           : "list it under 'one_hot', leave it out of 'features', or name it as "
                             "'text', with a 'tokenizer'");
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

  ColumnNames names_;
  std::optional<double> fill_;
};

/// What a table's target is.
struct TargetColumn {
  std::optional<size_t> position = {};  ///< none: nobody asks for it
  bool classes = true;
};

/// Throws for what is wrong with the fields of a record, as far as the recipe tells.
class RecordCheck {
 public:
  RecordCheck(const TableEncoder& encoder, std::vector<FeatureColumn> columns,
              const TargetColumn& target, const TableOptions& options)
      : encoder_(encoder),
        columns_(std::move(columns)),
        target_(target),
        labels_(LabelMap::given(options.labels, "labels")) {}

  void operator()(const CsvReader& reader, const Fields& fields) const {
    for (const FeatureColumn& column : columns_) {
      check(reader, fields, column.position, column.one_hot ? &column.categories : nullptr);
    }
    if (!target_.position) return;
    check(reader, fields, *target_.position, target_.classes ? &labels_ : nullptr);
  }

 private:
  /// `known` are a category's values, empty for any; null for a number.
  void check(const CsvReader& reader, const Fields& fields, size_t column,
             const LabelMap* known) const {
    if (!known) encoder_.number(reader, column, fields[column]);
    if (known && known->count() > 0) encoder_.label(reader, column, fields[column], *known);
  }

  const TableEncoder& encoder_;
  std::vector<FeatureColumn> columns_;
  TargetColumn target_;
  LabelMap labels_;  ///< empty: any
};

/// Walks over a table's records.
struct TableWalk {
  const TableText& text;
  const RecordCheck& check;

  /// Calls `use` with the reader and the fields of each record. Where records may be left out, one
  /// that cannot be read or does not pass the check goes to `bad` before.
  template <class Use>
  void each(BadSamples& bad, const Use& use) const {
    CsvReader reader = text.records();
    Fields fields;
    for (bool more = true; more;) {
      try {
        more = reader.next(fields);
        if (more && bad.skips()) check(reader, fields);
      } catch (const DataError& error) {
        bad.leave_out(error);
        continue;
      }
      if (more) use(reader, fields);
    }
  }
};

/// First walk: counts the rows and meets every category and label.
int64_t scan(const TableWalk& walk, BadSamples& bad, std::optional<size_t> target,
             std::vector<FeatureColumn>& columns, TextSet& labels) {
  const auto meet = [](TextSet& seen, std::string_view value) {
    if (!seen.contains(value)) seen.emplace(value);
  };
  int64_t rows = 0;
  walk.each(bad, [&](const CsvReader&, const Fields& fields) {
    ++rows;
    for (FeatureColumn& column : columns) {
      if (column.one_hot) meet(column.seen, fields[column.position]);
    }
    if (target) meet(labels, fields[*target]);
  });
  return rows;
}

class NumberInputs final : public TableInputs {
 public:
  NumberInputs(const TableEncoder& encoder, std::vector<FeatureColumn> columns, int64_t rows)
      : encoder_(encoder), columns_(std::move(columns)) {
    for (FeatureColumn& column : columns_) {
      if (column.one_hot && column.categories.count() == 0) {
        column.categories = LabelMap::given({column.seen.begin(), column.seen.end()}, "one_hot");
      }
      width_ += static_cast<int64_t>(column.width());
    }
    features_ = Array(DType::kF32, {rows, width_});
  }

  void add(const CsvReader& reader, const Fields& fields) override {
    encoder_.features(reader, columns_, fields,
                      features_.mutable_as<float>().data() + row_++ * width_);
  }
  void finish() override {}
  int64_t size() const override { return row_; }
  int64_t row(int64_t index) const override { return index; }
  Sample sample(int64_t index) const override { return {row_of(features_, index), {}}; }
  std::optional<int64_t> length(int64_t) const override { return std::nullopt; }
  DataShape described(DataShape shape) const override {
    shape.input = {width_};
    return shape;
  }
  std::string identity() const override { return ""; }

 private:
  TableEncoder encoder_;
  std::vector<FeatureColumn> columns_;
  int64_t width_ = 0;
  int64_t row_ = 0;  // the next to be added
  Array features_;   // f32 [rows, width]
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
    texts_.add({fields[first_], fields[second_], reader.place()}, bad_);
  }
  void finish() override { texts_.finish(bad_); }
  int64_t size() const override { return texts_.size(); }
  int64_t row(int64_t index) const override { return texts_.row(index); }
  Sample sample(int64_t index) const override { return texts_.sample(index); }
  std::optional<int64_t> length(int64_t index) const override { return texts_.length(index); }
  DataShape described(DataShape shape) const override { return texts_.described(std::move(shape)); }
  std::string identity() const override { return texts_.identity(); }

 private:
  /// What decides on the rows that are there, where some may be left out.
  static std::string left_out_by(const TableOptions& options) {
    if (!options.on_bad_sample.most) return "";
    std::string out = " skip ";
    out.append(options.target);
    out.append(options.target_type == TargetType::kClasses ? " classes" : " number");
    for (const std::string& label : options.labels) out.append(1, '\0').append(label);
    return out;
  }

  BadSamples& bad_;  // the table's
  size_t first_;
  size_t second_;  // of a pair; of a single text the same again, and not read
  TextColumns texts_;
};

}  // namespace

Schema<TableOptions> TableOptions::schema() {
  const Rule<Auto<std::string>> one_character = {
      [](const Auto<std::string>& v) {
        return !v || (v.value->size() == 1 && std::string("\"\r\n").find(*v) == std::string::npos);
      },
      "a single character that is no quote and no line end", "\"maxLength\": 4"};
  return with_bad_samples(
             with_text_columns(
                 Schema<TableOptions>()
                     .field("path", &TableOptions::path, "The file.")
                     .required()
                     .field("header", &TableOptions::header,
                            "Whether the first line names the columns. auto: it has no number, the "
                            "second has.")
                     .field("delimiter", &TableOptions::delimiter,
                            "What stands between fields. auto: a comma in csv, a tab in tsv.",
                            one_character)
                     .field("quoting", &TableOptions::quoting,
                            "Whether \"...\" may enclose a field. auto: true in csv, false in tsv.")
                     .field(
                         "features", &TableOptions::features,
                         "Columns that are inputs, by name or by number from 0; empty: all but the "
                         "target.")
                     .field("one_hot", &TableOptions::one_hot,
                            "Features that are categories, each with its values in order, or [] to "
                            "use "
                            "those found, sorted.")
                     .field("fill", &TableOptions::fill,
                            "What an empty field of numbers counts as.")
                     .field("target", &TableOptions::target,
                            "Column of the target, by name or by number from 0.")
                     .required()
                     .field("target_type", &TableOptions::target_type,
                            "classes: labels to tell apart. number: for regression.")
                     .field(
                         "labels", &TableOptions::labels,
                         "Class labels in the order of their numbers; empty: those found, sorted. "
                         "Labels that are whole numbers from 0 number themselves.")))
      .check([](const TableOptions& options, const Node& node, Reading& reading) {
        const bool numbers = !options.features.empty() || !options.one_hot.empty() || options.fill;
        if (options.text.empty() || !numbers) return;
        reading.problems.error(
            node.where,
            "'text' makes the text the only input, but 'features', 'one_hot' and "
            "'fill' are of numbers");
      });
}

Table::Table(const TableOptions& options, const DatasetContext& context, CsvDialect dialect)
    : Table(options, context, dialect, map_file(options.path.text)) {}

Table::Table(const TableOptions& options, const DatasetContext& context, CsvDialect dialect,
             SharedBytes content)
    : bad_(options.on_bad_sample, options.path.text) {
  const TableText text(options, dialect, std::move(content));
  const ColumnNames names = text.columns();
  const bool classes = options.target_type == TargetType::kClasses;
  TargetColumn target{names.look_up(options.target), classes};
  if (context.targets) target.position = names.find(options.target, "target");
  const TableEncoder encoder(names, options.fill);
  const bool tokens = !options.text.empty();
  std::vector<FeatureColumn> columns;
  if (!tokens) columns = feature_columns(options, names, target.position);
  if (!context.targets) target.position.reset();
  const RecordCheck check(encoder, columns, target, options);
  const TableWalk walk{text, check};
  TextSet seen;
  const int64_t rows = scan(walk, bad_, target.position, columns, seen);
  if (rows == 0 && bad_.count() == 0) throw DataError("'" + text.path() + "' has no rows");
  if (tokens) {
    inputs_ = std::make_unique<TextInputs>(options, text, names, bad_);
  } else {
    inputs_ = std::make_unique<NumberInputs>(encoder, std::move(columns), rows);
  }
  const LabelMap labels =
      options.labels.empty() ? LabelMap::found(seen) : LabelMap::given(options.labels, "labels");
  targets_ = Array(classes ? DType::kI64 : DType::kF32, {rows});
  std::fill_n(targets_.mutable_data(), targets_.bytes(), std::byte{0});
  size_t row = 0;
  BadSamples counted_before(options.on_bad_sample, options.path.text);
  walk.each(counted_before, [&](const CsvReader& reader, const Fields& fields) {
    inputs_->add(reader, fields);
    const size_t at = row++;
    if (!target.position) return;
    const std::string_view field = fields[*target.position];
    if (classes) {
      targets_.mutable_as<int64_t>()[at] = encoder.label(reader, *target.position, field, labels);
    } else {
      targets_.mutable_as<float>()[at] = encoder.number(reader, *target.position, field);
    }
  });
  inputs_->finish();
  bad_.tell(size());
  if (classes && target.position) {
    classes_ = labels.count();
    labels_ = labels.names();
  }
  Fingerprint fingerprint;
  fingerprint.add_content(text.bytes());
  if (const std::string identity = inputs_->identity(); !identity.empty())
    fingerprint.add(identity);
  fingerprint_ = fingerprint.text();
}

Sample Table::sample(int64_t index) const {
  Sample sample = inputs_->sample(index);
  sample.target = row_of(targets_, inputs_->row(index));
  return sample;
}

DataShape Table::shape() const {
  return inputs_->described(
      {.target_type = targets_.type(), .classes = classes_, .labels = labels_});
}

}  // namespace accel
