#include "runner/draft/table_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "runner/draft/recipe_draft.h"

namespace accel {
namespace {

constexpr size_t kMostClassNumbers = 20;  ///< a target with more integers is a regression

bool can_be_target(const SniffedColumn& column) {
  switch (column.type) {
    case ColumnType::kNumber:
    case ColumnType::kInteger:
      return true;
    case ColumnType::kBoolean:
    case ColumnType::kCategory:
      return !column.values.empty();
    default:
      return false;
  }
}

bool has_target_name(const std::string& name) {
  static constexpr const char* kNames[] = {
      "target",    "label",    "labels", "class",   "outcome",   "species", "sentiment",
      "diagnosis", "survived", "churn",  "churned", "saleprice", "medv"};
  const std::string word = ascii_lower(trimmed(name));
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](const char* each) { return word == each; });
}

/// The first column with a usual name of a target. A 'y' is one where no other name is and there is
/// no 'x', beside which it is a coordinate.
std::optional<size_t> target_by_name(const std::vector<SniffedColumn>& columns) {
  std::optional<size_t> y;
  bool has_x = false;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (has_target_name(columns[i].name)) return i;
    const std::string word = ascii_lower(trimmed(columns[i].name));
    has_x = has_x || word == "x";
    if (word == "y" && !y) y = i;
  }
  return has_x ? std::nullopt : y;
}

[[noreturn]] void throw_no_target(const std::string& column, const SniffedColumn& found,
                                  const std::string& path) {
  if (found.type == ColumnType::kText && !found.reason.empty()) {
    throw DataError(text("column '{}' of '{}' cannot be predicted: {}", column, path, found.reason),
                    "numbers, or 2 to 1000 classes, can be: change the file, or name another "
                    "column with --target");
  }
  throw DataError(text("column '{}' of '{}' cannot be predicted: it is of type '{}'", column, path,
                       type_text(found)),
                  "numbers, or 2 to 1000 classes, can be: name the column with --target");
}

size_t column_at(const SniffedTable& table, const std::string& name, const std::string& path) {
  std::vector<std::string> names;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].name == name) return i;
    names.push_back(table.columns[i].name);
  }
  throw Error(ExitCode::kRecipe, text("'{}' has no column '{}'", path, name),
              text("it has the columns {}", quoted_list(names)));
}

void choose_target(TablePlan& plan, const std::string& path, const std::string& wished) {
  const std::vector<SniffedColumn>& columns = plan.table.columns;
  if (!wished.empty()) {
    plan.target = column_at(plan.table, wished, path);
    plan.target_reason = "given by --target";
  } else {
    plan.target = columns.size() - 1;
    plan.target_reason = "the last column";
    if (const std::optional<size_t> named = target_by_name(columns)) {
      plan.target = *named;
      plan.target_reason = "by its name";
    }
  }
  if (!can_be_target(plan.goal())) throw_no_target(plan.goal().name, plan.goal(), path);
  // Yes and yes are the same class in the data and would be two in the model.
  if (plan.goal().type == ColumnType::kBoolean && plan.goal().distinct > 2) {
    throw DataError(text("column '{}' of '{}' spells its classes in several ways: {}",
                         plan.goal().name, path, quoted_list(plan.goal().values)),
                    "make them the same in the file");
  }
}

/// How a column is used as a feature; none if it is left out.
std::optional<std::string> feature_use(const SniffedColumn& column) {
  switch (column.type) {
    case ColumnType::kNumber:
    case ColumnType::kInteger:
      return "feature";
    case ColumnType::kBoolean:
      return "feature, 1 for true and 0 for false";
    case ColumnType::kDate:
      return text("feature: {}", joined(column.parts));
    case ColumnType::kCategory:
      if (column.distinct <= kMostCategories) return "feature, one-hot";
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::string left_out_reason(const SniffedColumn& column) {
  if (column.type == ColumnType::kConstant) {
    return text("left out: the same value in every row, '{}'",
                column.values.empty() ? "" : column.values.front());
  }
  if (column.type == ColumnType::kEmpty) return "left out: it has no value";
  return text("left out: {}", column.reason);
}

std::string missing_note(const SniffedColumn& column) {
  if (column.missing == 0) return "";
  if (column.outliers) return "; missing values: median, as there are outliers";
  return text("; missing values: {}", fill_rule(column));
}

void choose_features(TablePlan& plan) {
  const std::vector<SniffedColumn>& columns = plan.table.columns;
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::optional<std::string> use = feature_use(columns[i]);
    if (i == plan.target) {
      std::string goal = text("target, {}", plan.target_reason);
      if (columns[i].missing > 0) goal += "; rows without it are left out";
      plan.uses.push_back(std::move(goal));
    } else if (use) {
      plan.features.push_back(i);
      plan.uses.push_back(*use + missing_note(columns[i]));
    } else {
      plan.uses.push_back(left_out_reason(columns[i]));
    }
  }
}

}  // namespace

bool TablePlan::is_class() const {
  const SniffedColumn& column = goal();
  if (column.type == ColumnType::kBoolean || column.type == ColumnType::kCategory) return true;
  return column.type == ColumnType::kInteger && column.distinct <= kMostClassNumbers &&
         !column.values.empty() && column.values.front()[0] != '-';
}

void choose_columns(TablePlan& plan, const std::string& path, const std::string& wished) {
  choose_target(plan, path, wished);
  choose_features(plan);
}

std::string fill_rule(const SniffedColumn& column) {
  const bool is_number = column.type == ColumnType::kNumber ||
                         column.type == ColumnType::kInteger || column.type == ColumnType::kDate;
  if (!is_number) return "mode";
  return column.outliers || column.type == ColumnType::kDate ? "median" : "mean";
}

std::vector<std::string> column_table(const TablePlan& plan) {
  std::vector<std::vector<std::string>> rows = {{"column", "type", "missing", "use"}};
  for (size_t i = 0; i < plan.table.columns.size(); ++i) {
    const SniffedColumn& column = plan.table.columns[i];
    rows.push_back({printable(column.name), type_text(column), std::to_string(column.missing),
                    printable(plan.uses[i])});
  }
  return aligned_rows(rows);
}

}  // namespace accel
