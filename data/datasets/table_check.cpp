#include "data/datasets/table_check.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/datasets/label_lists.h"

namespace accel {
namespace {

constexpr size_t kShownBytes = 60;

const char* fault_text(FieldFault fault) {
  switch (fault) {
    case FieldFault::kMissing:
      return "a missing value";
    case FieldFault::kNoNumber:
      return "not a number";
    case FieldFault::kNoBoolean:
      return "neither true nor false";
    case FieldFault::kNoDate:
      return "not a date such as 2024-01-31";
    case FieldFault::kNoFlag:
      return "neither 0 nor 1";
    case FieldFault::kNoLabels:
      return "not a list of labels, each once, such as a,b or [\"a\", \"b\"]";
    case FieldFault::kUnlistedLabel:
      return "with a label that the recipe does not list";
    case FieldFault::kUnlisted:
      break;
  }
  return "none of the values the recipe lists";
}

}  // namespace

RecordCheck::RecordCheck(const TableOptions& options, ColumnNames names,
                         std::vector<FeatureColumn> columns, const TargetColumn& target)
    : names_(std::move(names)),
      columns_(std::move(columns)),
      target_(target),
      labels_(LabelMap::given(options.labels, "labels")),
      decimal_(options.decimal[0]),
      text_(!options.text.empty()) {
  for (const std::string& value : options.na_values) {
    const std::string_view text = without_spaces(value);
    missing_.emplace(text);
    if (!text.empty()) missing_starts_[static_cast<uint8_t>(text.front())] = true;
  }
}

bool RecordCheck::is_missing_text(std::string_view field) const {
  field = without_spaces(field);
  // Most fields are numbers, and few texts for missing values start as a number does.
  if (!field.empty() && !missing_starts_[static_cast<uint8_t>(field.front())]) return false;
  return missing_.contains(field);
}

bool RecordCheck::is_missing(const FeatureColumn& column, std::string_view field) const {
  return is_missing_text(field) && !(column.listed && column.categories.find(field));
}

bool RecordCheck::drops(const Fields& fields, const std::function<void(size_t)>& use) const {
  bool found = false;
  const auto drop = [&](size_t column) {
    found = true;
    if (use) use(column);
  };
  for (const FeatureColumn& column : columns_) {
    const bool rule = column.rule && column.rule->kind == FillRule::Kind::kDrop;
    if (rule && is_missing(column, fields[column.position])) drop(column.position);
  }
  if (!target_.drop || target_.lists_labels()) return found;
  for (const size_t position : target_.positions) {
    const std::string_view target = fields[position];
    if (is_missing_text(target) && !labels_.find(target)) drop(position);
  }
  return found;
}

std::optional<FieldFault> RecordCheck::fault_of(const FeatureColumn& column,
                                                std::string_view field) const {
  if (is_missing(column, field))
    return column.rule ? std::nullopt : std::optional(FieldFault::kMissing);
  switch (column.kind) {
    case ColumnKind::kNumber:
      if (!parse_field_number(field, decimal_)) return FieldFault::kNoNumber;
      break;
    case ColumnKind::kBoolean:
      if (!parse_field_boolean(field)) return FieldFault::kNoBoolean;
      break;
    case ColumnKind::kDate:
      if (!parse_field_date(field)) return FieldFault::kNoDate;
      break;
    case ColumnKind::kCategory:
      if (column.listed && !column.categories.find(field)) return FieldFault::kUnlisted;
      break;
  }
  return std::nullopt;
}

std::optional<FieldFault> RecordCheck::fault_of_target(std::string_view field) const {
  if (target_.lists_labels()) {
    const bool is_word = field.find_first_not_of(' ') != field.npos;
    if (is_word && is_missing_text(field) && !labels_.find(field)) return FieldFault::kMissing;
    const auto labels = labels_in(field);
    if (!labels) return FieldFault::kNoLabels;
    const bool listed = labels_.count() == 0 ||
                        std::all_of(labels->begin(), labels->end(), [&](const std::string& label) {
                          return labels_.find(label).has_value();
                        });
    return listed ? std::nullopt : std::optional(FieldFault::kUnlistedLabel);
  }
  if (is_missing_text(field) && !labels_.find(field)) return FieldFault::kMissing;
  if (target_.type == TargetType::kLabels) {
    return label_flag(field) ? std::nullopt : std::optional(FieldFault::kNoFlag);
  }
  if (target_.type == TargetType::kNumber) {
    return parse_field_number(field, decimal_) ? std::nullopt
                                               : std::optional(FieldFault::kNoNumber);
  }
  const bool unlisted = labels_.count() > 0 && !labels_.find(field);
  return unlisted ? std::optional(FieldFault::kUnlisted) : std::nullopt;
}

void RecordCheck::each_fault(const Fields& fields, const UseFault& use) const {
  for (const FeatureColumn& column : columns_) {
    if (const auto fault = fault_of(column, fields[column.position])) use(column.position, *fault);
  }
  for (const size_t position : target_.positions) {
    if (const auto fault = fault_of_target(fields[position])) use(position, *fault);
  }
}

void RecordCheck::require_good(const CsvReader& reader, const Fields& fields) const {
  each_fault(fields, [&](size_t column, FieldFault fault) {
    refuse(reader.location(), column, fields[column], fault);
  });
}

std::string RecordCheck::missing_hint(size_t column) const {
  if (target_.has(column)) {
    return text_ ? "remove the rows without a target, or write 'na_values: []' if it is a label"
                 : text(
                       "'fill: {{}: drop}' leaves out the rows without a target, 'na_values: []' "
                       "takes every text as a label",
                       names_.name(column));
  }
  return text(
      "write a rule for missing values, such as 'fill: {{}: mean}'; the rules are mean, median, "
      "mode, drop, or a value",
      names_.name(column));
}

std::string RecordCheck::hint_for(std::string_view field, FieldFault fault) const {
  if (fault == FieldFault::kNoDate) {
    return "write dates as year-month-day: other orders are ambiguous";
  }
  if (fault != FieldFault::kNoNumber) return "";
  const char other = decimal_ == '.' ? ',' : '.';
  const bool is_fraction = parse_field_number(field, other).has_value();
  if (has_thousands_separators(field, decimal_)) {
    const std::string hint = "remove the thousands separators from the file";
    return is_fraction ? text("{}; if '{}' is the decimal separator, write 'decimal: \"{}\"'", hint,
                              std::string(1, other), std::string(1, other))
                       : hint;
  }
  if (is_fraction) {
    return text("'decimal: \"{}\"' reads it as a number", std::string(1, other));
  }
  return "list it under 'one_hot', leave it out of 'features', or name it as 'text', with a "
         "'tokenizer'; 'na_values' lists texts that mean a missing value";
}

void RecordCheck::refuse(const std::string& location, size_t column, std::string_view field,
                         FieldFault fault) const {
  throw DataError(text("{}: column {} holds '{}', {}", location, names_.describe(column),
                       field.substr(0, kShownBytes), fault_text(fault)),
                  fault == FieldFault::kMissing ? missing_hint(column) : hint_for(field, fault));
}

void TableFaults::add(const CsvReader& reader, size_t column, std::string_view field,
                      FieldFault fault) {
  Found& found = found_[{column, fault}];
  if (found.count++ > 0) return;
  found.line = reader.line();
  found.location = reader.location();
  found.field = field.substr(0, kShownBytes);
}

void TableFaults::check(const RecordCheck& records_check, const std::string& path,
                        int64_t records) const {
  if (found_.empty()) return;
  const auto& [only, first] = *found_.begin();
  if (found_.size() == 1 && only.second != FieldFault::kMissing) {
    records_check.refuse(first.location, only.first, first.field, only.second);
  }
  std::string lines, hint;
  for (const auto& [key, found] : found_) {
    const auto& [column, fault] = key;
    const std::string name = records_check.names().describe(column);
    if (fault == FieldFault::kMissing) {
      lines += text("\n  column {}: {} of {} missing, first in line {}", name, found.count, records,
                    found.line);
      if (hint.empty()) hint = records_check.missing_hint(column);
    } else {
      lines += text("\n  column {}: {} of {} {}, first '{}' in line {}", name, found.count, records,
                    fault_text(fault), found.field, found.line);
    }
  }
  throw DataError(text("'{}' has values that cannot be used:{}", path, lines), hint);
}

}  // namespace accel
