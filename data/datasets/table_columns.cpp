#include "data/datasets/table_columns.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {

std::string TargetColumns::text() const {
  return joined(names, ",");
}

std::optional<TargetColumns> Codec<TargetColumns>::read(const Node& node, const std::string& name,
                                                        Reading& reading) {
  std::optional<std::vector<std::string>> names = Names::read(node, name, reading);
  if (!names) return std::nullopt;
  if (names->size() == 1 && names->front().empty()) names->clear();
  return TargetColumns{std::move(*names)};
}

Node Codec<TargetColumns>::write(const TargetColumns& columns) {
  if (columns.is_list()) return Names::write(columns.names);
  return Codec<std::string>::write(columns.empty() ? "" : columns.front());
}

void check_target(const TargetColumns& target, TargetType type, const Node& node,
                  Reading& reading) {
  if (!target.is_list() || type != TargetType::kClasses) return;
  const Node::Entry* entry = node.find("target");
  reading.problems.error(entry ? entry->node.where : node.where,
                         accel::text("'target' names {} columns, and 'target_type: classes' takes "
                                     "one",
                                     target.names.size()),
                         "write 'target_type: labels' for columns of 0 and 1, or 'number'");
}

void check_text_has_no_target(const std::vector<std::string>& text_columns,
                              const TargetColumns& target, const Node& node, Reading& reading) {
  for (const std::string& name : text_columns) {
    if (std::find(target.names.begin(), target.names.end(), name) == target.names.end()) continue;
    const Node::Entry* entry = node.find("text");
    reading.problems.error(entry ? entry->node.where : node.where,
                           accel::text("'text' names the target column '{}', from which the model "
                                       "would read the answer",
                                       name),
                           "name another column as 'text', or leave 'target' out for a language "
                           "model");
  }
}

namespace {

void check_table_target(const TableOptions& options, const Node& node, Reading& reading) {
  check_target(options.target, options.target_type, node, reading);
  check_text_has_no_target(options.text, options.target, node, reading);
}

/// Adds the file, and how its text is divided into fields.
Schema<TableOptions> text_format(Schema<TableOptions> schema) {
  const Rule<Auto<std::string>> one_character = {
      [](const Auto<std::string>& v) {
        return !v || (v.value->size() == 1 && std::string("\"\r\n").find(*v) == std::string::npos);
      },
      "a single character other than a quote and a line end", "\"maxLength\": 4"};
  return std::move(schema)
      .field("path", &TableOptions::path, "The file.")
      .required()
      .field("header", &TableOptions::header,
             "Whether the first line names the columns. auto: it has no number, and "
             "the second has one or this recipe names one of its fields.")
      .field("delimiter", &TableOptions::delimiter,
             "Field separator. auto: a comma in csv, a tab in tsv.", one_character)
      .field("quoting", &TableOptions::quoting,
             "Whether \"...\" may enclose a field. auto: true in csv, false in tsv.")
      .field("skip_initial_space", &TableOptions::skip_initial_space,
             "Whether spaces after delimiters are skipped, also before a quote; "
             "otherwise they are part of names and values.")
      .hint_for({"skipinitialspace"});
}

}  // namespace

Schema<TableOptions> TableOptions::schema() {
  return with_bad_samples(
             with_text_columns(
                 text_format(Schema<TableOptions>())
                     .field(
                         "features", &TableOptions::features,
                         "Columns that are inputs, by name or by number from 0; empty: all but the "
                         "target, in the order of the training data.")
                     .field("one_hot", &TableOptions::one_hot,
                            "Categorical features, each with its values in order, or [] for the "
                            "values found, sorted.")
                     .field("booleans", &TableOptions::booleans,
                            "Features of true and false, yes and no, t and f, y and n or 1 and 0, "
                            "in any case: 1 or 0.")
                     .field("dates", &TableOptions::dates,
                            "Columns of dates such as 2024-01-31, 2024-01-31 13:45 or "
                            "2024-01-31T13:45+02:00, each with its features: year, month, day, "
                            "weekday (0 is Monday), hour, timestamp (days since 1970). All are in "
                            "UTC; dates without a zone are taken as UTC.")
                     .field("decimal", &TableOptions::decimal, "Decimal separator of numbers.",
                            one_of(std::vector<std::string>{".", ","}))
                     .field("na_values", &TableOptions::na_values,
                            "Texts that mean that a value is missing.")
                     .field("fill", &TableOptions::fill,
                            "What replaces missing values: mean, median or mode of the training "
                            "samples, a value, or drop, which leaves the rows out; for all columns "
                            "or by column. For all columns, categories take the mode in place of "
                            "the mean.")
                     .field("target", &TableOptions::target,
                            "Column of the target, by name or by number from 0; several for "
                            "'target_type' number or labels.")
                     .required()
                     .field("target_type", &TableOptions::target_type, kTargetTypeHelp)
                     .field("labels", &TableOptions::labels,
                            "Class labels in the order of their numbers; empty: the labels found, "
                            "sorted. Labels that are integers from 0 are their own numbers.")
                     .check(&check_table_target)))
      .check([](const TableOptions& options, const Node& node, Reading& reading) {
        const bool numbers = !options.features.empty() || !options.one_hot.empty() ||
                             !options.booleans.empty() || !options.dates.empty() ||
                             !options.fill.empty();
        if (options.text.empty() || !numbers) return;
        reading.problems.error(node.where,
                               "'text' makes the text the only input, but 'features', 'one_hot', "
                               "'booleans', 'dates' and 'fill' apply to numbers");
      });
}

namespace {

bool has_number(const std::vector<std::string_view>& fields) {
  return std::any_of(fields.begin(), fields.end(),
                     [](std::string_view field) { return field_number(field).has_value(); });
}

std::optional<size_t> position_of(const std::string& text) {
  size_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && after == end ? std::optional(value) : std::nullopt;
}

}  // namespace

ColumnNames::ColumnNames(std::vector<std::string> names, size_t count, std::string path)
    : names_(std::move(names)), count_(count), path_(std::move(path)) {}

std::optional<size_t> ColumnNames::look_up(const std::string& column) const {
  const auto named = std::find(names_.begin(), names_.end(), column);
  if (named != names_.end()) return static_cast<size_t>(named - names_.begin());
  const std::optional<size_t> position = position_of(column);
  return position && *position < count_ ? position : std::nullopt;
}

size_t ColumnNames::find(const std::string& column, const std::string& option) const {
  if (const std::optional<size_t> found = look_up(column)) return *found;
  std::string hint = did_you_mean(column, names_);
  if (hint.empty() && !names_.empty())
    hint = accel::text("it has the columns {}", quoted_list(names_));
  if (names_.empty()) {
    hint = accel::text("it has no header line; its columns are 0 to {}", count_ - 1);
  }
  throw Error(ExitCode::kRecipe,
              accel::text("'{}' names the column '{}', which '{}' lacks", option, column, path_),
              hint);
}

std::string ColumnNames::describe(size_t column) const {
  return names_.empty() ? std::to_string(column) : single_quoted(names_[column]);
}

std::string ColumnNames::name(size_t column) const {
  return names_.empty() ? std::to_string(column) : names_[column];
}

size_t FeatureColumn::width() const {
  if (kind == ColumnKind::kCategory) return static_cast<size_t>(categories.count());
  return kind == ColumnKind::kDate ? dates.size() : 1;
}

namespace {

/// Sets the kind of the column that `option` names.
FeatureColumn& set_kind(std::vector<FeatureColumn>& columns, const ColumnNames& names,
                        const std::string& column, const std::string& option, ColumnKind kind) {
  const size_t position = names.find(column, option);
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [=](const FeatureColumn& c) { return c.position == position; });
  if (found == columns.end()) {
    throw Error(ExitCode::kRecipe, accel::text("'{}' names the column '{}', which is not among the "
                                               "features",
                                               option, column));
  }
  if (found->kind != ColumnKind::kNumber) {
    throw Error(
        ExitCode::kRecipe,
        accel::text("'{}' names the column '{}', which another option names too", option, column),
        "a column is in one of 'one_hot', 'booleans' and 'dates'");
  }
  found->kind = kind;
  return *found;
}

bool is_number(const std::string& text) {
  return parse_field_number(text, '.').has_value();
}

/// The rule for all columns as a column of this kind takes it: most frequent in place of the mean
/// for categories, and constants only for columns that can hold them.
std::optional<FillRule> rule_for_all(const FillRule& rule, ColumnKind kind) {
  const bool category = kind == ColumnKind::kCategory;
  if (rule.kind == FillRule::Kind::kConstant) {
    const bool fits = kind != ColumnKind::kDate && category != is_number(rule.constant);
    return fits ? std::optional(rule) : std::nullopt;
  }
  const bool average = rule.kind == FillRule::Kind::kMean || rule.kind == FillRule::Kind::kMedian;
  return category && average ? FillRule{FillRule::Kind::kMode, ""} : rule;
}

/// Refuses a rule that a column of this kind cannot have.
void check_rule(const FeatureColumn& column, const FillRule& rule) {
  using Kind = FillRule::Kind;
  const bool category = column.kind == ColumnKind::kCategory;
  if (category && (rule.kind == Kind::kMean || rule.kind == Kind::kMedian)) {
    throw Error(ExitCode::kRecipe,
                accel::text("'fill' gives the column '{}' the {}, but it holds categories",
                            column.name, to_string(rule)),
                "give it 'mode', 'drop' or one of its values");
  }
  if (rule.kind != Kind::kConstant || category) return;
  const bool date = column.kind == ColumnKind::kDate;
  if (date ? parse_field_date(rule.constant).has_value() : is_number(rule.constant)) return;
  throw Error(ExitCode::kRecipe,
              accel::text("'fill' gives the column '{}' the value '{}', which is not a {}",
                          column.name, rule.constant, date ? "date" : "number"),
              "the rules are mean, median, mode, drop, or a value of the column");
}

bool has_position(const std::vector<size_t>& positions, size_t position) {
  return std::find(positions.begin(), positions.end(), position) != positions.end();
}

void set_rules(std::vector<FeatureColumn>& columns, const ColumnNames& names,
               const FillRules& rules, const std::vector<size_t>& targets) {
  for (FeatureColumn& column : columns) {
    if (rules.all) column.rule = rule_for_all(*rules.all, column.kind);
  }
  for (const auto& [name, rule] : rules.columns) {
    const size_t position = names.find(name, "fill");
    if (has_position(targets, position)) {
      if (rule.kind == FillRule::Kind::kDrop) continue;
      throw Error(ExitCode::kRecipe,
                  accel::text("'fill' gives the target column '{}' a value", name),
                  "a row without a target can only be left out: 'drop'");
    }
    for (FeatureColumn& column : columns) {
      if (column.position != position) continue;
      check_rule(column, rule);
      column.rule = rule;
    }
  }
}

}  // namespace

std::vector<FeatureColumn> feature_columns(const TableOptions& options, const ColumnNames& names,
                                           const std::vector<size_t>& targets) {
  std::vector<FeatureColumn> columns;
  for (const std::string& feature : options.features) {
    const size_t position = names.find(feature, "features");
    if (has_position(targets, position)) {
      throw Error(ExitCode::kRecipe,
                  accel::text("'features' names the target column '{}', from which the model would "
                              "read the answer",
                              feature),
                  "leave it out of 'features'");
    }
    columns.push_back({.position = position});
  }
  for (size_t i = 0; options.features.empty() && i < names.count(); ++i) {
    if (!has_position(targets, i)) columns.push_back({.position = i});
  }
  for (FeatureColumn& column : columns) column.name = names.name(column.position);
  for (const auto& [name, categories] : options.one_hot) {
    FeatureColumn& column = set_kind(columns, names, name, "one_hot", ColumnKind::kCategory);
    column.listed = !categories.empty();
    if (column.listed) column.categories = LabelMap::given(categories, "one_hot." + name);
  }
  for (const std::string& name : options.booleans) {
    set_kind(columns, names, name, "booleans", ColumnKind::kBoolean);
  }
  for (const auto& [name, features] : options.dates) {
    FeatureColumn& column = set_kind(columns, names, name, "dates", ColumnKind::kDate);
    column.dates = features;
    if (!features.empty()) continue;
    throw Error(ExitCode::kRecipe, accel::text("'dates' names no feature of the column '{}'", name),
                "choose among year, month, day, weekday, hour and timestamp");
  }
  if (columns.empty()) throw Error(ExitCode::kRecipe, "the table has no column but its target");
  set_rules(columns, names, options.fill, targets);
  return columns;
}

std::optional<float> field_number(std::string_view field) {
  const std::optional<double> number = parse_field_number(field, '.');
  return number ? std::optional(static_cast<float>(*number)) : std::nullopt;
}

bool looks_like_header(const std::vector<std::string_view>& first,
                       const std::vector<std::string_view>& second) {
  return !has_number(first) && has_number(second);
}

}  // namespace accel
