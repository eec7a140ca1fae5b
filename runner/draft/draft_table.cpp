// Drafts for tables: a table of all columns on the screen, and a recipe that says what becomes of
// each.
#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "runner/draft/recipe_draft.h"
#include "runner/draft/table_plan.h"
#include "runner/draft/text_model.h"
#include "runner/draft/training_moments.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

std::string delimiter_name(char delimiter) {
  return delimiter == '\t' ? "tab" : single_quoted(std::string(1, delimiter));
}

/// The guess about numbers such as 1,500.
void note_commas(const TablePlan& plan, RecipeDraft& draft) {
  const CommaReading& commas = plan.table.commas;
  if (commas.example.empty()) return;
  const std::string& column = plan.table.columns[commas.column].name;
  draft.findings.push_back(
      commas.decimal
          ? text(
                "column '{}': the comma of '{}' is read as a decimal mark, which is a guess; if it "
                "separates thousands, remove such commas from the file, and 'decimal' here",
                column, commas.example)
          : text("column '{}': the comma of '{}' is read as a separator of thousands, which is a "
                 "guess; remove such commas from the file, or, if it is a decimal mark, add "
                 "'decimal: \",\"' and the column to 'features'",
                 column, commas.example));
}

void add_findings(const TablePlan& plan, RecipeDraft& draft) {
  const SniffedTable& table = plan.table;
  std::string format =
      text("{}: {} rows, {} columns, delimiter {}, {}", plan.file, table.rows, table.columns.size(),
           delimiter_name(table.dialect.dialect.delimiter),
           table.header ? "names in the first line" : "no header, so columns are numbered from 0");
  if (table.dialect.decimal_comma) format += ", decimal commas";
  if (table.dialect.dialect.skip_initial_space) format += ", spaces after delimiters are skipped";
  if (table.byte_order_mark) format += ", a byte order mark";
  draft.findings.push_back(std::move(format));
  for (std::string& line : column_table(plan)) draft.findings.push_back("  " + line);
  note_commas(plan, draft);
  for (const std::string& name : table.repeated_names) {
    draft.findings.push_back(
        text("'{}' names several columns: the first has the name, and the "
             "others are called by their numbers, from 0",
             name));
  }
  if (!table.na_values.empty()) {
    draft.findings.push_back(
        text("missing values are written as {}", quoted_list(table.na_values)));
  }
}

void note_spellings(const SniffedColumn& column, RecipeDraft& draft) {
  std::vector<std::string> folded;
  for (const std::string& value : column.values) folded.push_back(ascii_lower(trimmed(value)));
  std::sort(folded.begin(), folded.end());
  const auto twice = std::adjacent_find(folded.begin(), folded.end());
  if (column.type != ColumnType::kCategory || twice == folded.end()) return;
  std::vector<std::string> same;
  for (const std::string& value : column.values) {
    if (ascii_lower(trimmed(value)) == *twice) same.push_back(value);
  }
  draft.findings.push_back(
      text("column '{}': {} differ only in case or spaces, and are separate values", column.name,
           quoted_list(same)));
}

void note_unused_words(const SniffedColumn& column, RecipeDraft& draft) {
  if (column.type != ColumnType::kCategory) return;
  for (const std::string& value : column.values) {
    const std::string word = ascii_lower(trimmed(value));
    if (word != "none" && word != "-" && word != "--" && word != ".") continue;
    draft.findings.push_back(
        text("column '{}': '{}' is kept as a value; if it means missing, add it to 'na_values'",
             column.name, value));
  }
}

/// Values that overflow a float, and infinities.
void note_infinities(const SniffedColumn& column, RecipeDraft& draft) {
  if (column.infinite.empty()) return;
  draft.findings.push_back(text("column '{}': {} are no finite numbers, and are missing values",
                                column.name, quoted_list(column.infinite)));
}

void note_codes(const SniffedColumn& column, RecipeDraft& draft) {
  if (column.code.empty()) return;
  draft.findings.push_back(
      text("column '{}': values such as '{}' have leading zeros, and are codes rather than numbers",
           column.name, column.code));
}

/// Options that a table's file needs, with or without features.
std::vector<std::string> format_lines(const SniffedTable& table, const std::string& file) {
  const CsvDialect& dialect = table.dialect.dialect;
  std::vector<std::string> lines = {
      std::string("type: ") + (dialect.delimiter == '\t' ? "tsv" : "csv"), "path: " + in_data(file),
      std::string("header: ") + (table.header ? "true" : "false")};
  if (dialect.delimiter == '\t') {
    if (dialect.quoting) lines.push_back("quoting: true");
  } else {
    lines.push_back("delimiter: " + yaml_text(std::string(1, dialect.delimiter)));
  }
  if (dialect.skip_initial_space) lines.push_back("skip_initial_space: true");
  if (table.dialect.decimal_comma) lines.push_back("decimal: \",\"");
  return lines;
}

std::vector<std::string> fill_lines(const TablePlan& plan) {
  std::vector<std::string> lines;
  for (const size_t i : plan.features) {
    const SniffedColumn& column = plan.table.columns[i];
    if (column.missing == 0) continue;
    lines.push_back(
        text("  {}: {}  # {} missing", yaml_key(column.name), fill_rule(column), column.missing));
  }
  if (plan.goal().missing > 0) {
    lines.push_back(text("  {}: drop  # rows without a target, which are left out: {}",
                         yaml_key(plan.goal().name), plan.goal().missing));
  }
  if (!lines.empty()) lines.insert(lines.begin(), "fill:  # of missing values, by column");
  return lines;
}

std::vector<std::string> target_lines(const TablePlan& plan) {
  std::vector<std::string> lines = {"target: " + yaml_text(plan.goal().name)};
  if (!plan.is_class()) return {lines.front(), "target_type: number"};
  append_lines(lines, list_lines("labels", yaml_texts(plan.goal().values)));
  return lines;
}

std::vector<std::string> table_lines(const TablePlan& plan, const std::string& file) {
  const SniffedTable& table = plan.table;
  std::vector<std::string> lines = format_lines(table, file);
  std::vector<std::string> na_values = table.na_values;
  if (na_values.empty() || !na_values.front().empty()) na_values.insert(na_values.begin(), "");
  append_lines(lines, list_lines("na_values", yaml_texts(na_values)));
  std::vector<std::string> features, categories, booleans, dates;
  for (const size_t i : plan.features) {
    const SniffedColumn& column = table.columns[i];
    features.push_back(yaml_text(column.name));
    if (column.type == ColumnType::kCategory) {
      append_lines(categories, list_lines("  " + yaml_key(column.name), yaml_texts(column.values)));
    } else if (column.type == ColumnType::kBoolean) {
      booleans.push_back(yaml_text(column.name));
    } else if (column.type == ColumnType::kDate) {
      append_lines(dates, list_lines("  " + yaml_key(column.name), column.parts));
    }
  }
  append_lines(lines, list_lines("features", features));
  if (!categories.empty()) lines.push_back("one_hot:  # categories and their values");
  append_lines(lines, categories);
  if (!booleans.empty()) append_lines(lines, list_lines("booleans", booleans));
  if (!dates.empty()) {
    lines.push_back("dates:  # to leave one out, remove it here, in 'features' and in 'normalize'");
  }
  append_lines(lines, dates);
  append_lines(lines, fill_lines(plan));
  append_lines(lines, target_lines(plan));
  return lines;
}

std::string table_task(const TablePlan& plan) {
  return plan.is_class() ? "classification" : regression_task(plan.goal().moments);
}

/// Normalizes numbers to mean 0 and standard deviation 1; categories and booleans are unchanged.
std::vector<std::string> normalize_lines(const TablePlan& plan) {
  std::vector<std::string> means, deviations;
  const auto add = [&](const ColumnMoments& moments) {
    means.push_back(short_number(moments.mean));
    deviations.push_back(short_number(moments.deviation));
  };
  for (const size_t i : plan.features) {
    const SniffedColumn& column = plan.table.columns[i];
    if (column.type == ColumnType::kCategory) {
      for (size_t value = 0; value < column.values.size(); ++value) add({});
    } else if (column.type == ColumnType::kBoolean) {
      add({});
    } else if (column.type == ColumnType::kDate) {
      for (const ColumnMoments& part : column.part_moments) add(part);
    } else {
      add(column.moments);
    }
  }
  std::vector<std::string> lines = {"- type: normalize  # by the values of the training rows"};
  append_lines(lines, list_lines("  mean", means));
  append_lines(lines, list_lines("  std", deviations));
  return lines;
}

/// The eval file beside the table, if it has the columns; empty otherwise, with a finding.
fs::path eval_table(const TablePlan& plan, const fs::path& path, const std::vector<size_t>& needed,
                    RecipeDraft& draft) {
  const fs::path other = eval_file(path);
  if (other.empty() || !plan.table.header) return other;
  const SharedBytes file = map_file(other.string());
  CsvReader reader(file.view, plan.table.dialect.dialect, other.string());
  std::vector<std::string_view> names;
  reader.next(names);
  for (const size_t i : needed) {
    const std::string& name = plan.table.columns[i].name;
    const bool is_numbered = name == std::to_string(i) && i < names.size();
    if (is_numbered || std::find(names.begin(), names.end(), name) != names.end()) continue;
    draft.findings.push_back(text("{} has no column '{}', so it is not used as eval data",
                                  printable(other.filename().string()), name));
    return {};
  }
  draft.findings.push_back(text("eval: the rows of {}", printable(other.filename().string())));
  return other;
}

void describe_goal(const TablePlan& plan, RecipeDraft& draft) {
  const SniffedColumn& goal = plan.goal();
  if (plan.is_class()) {
    draft.findings.push_back(text("predicts '{}' as one of {} classes", goal.name, goal.distinct));
    std::vector<ClassCount> classes;
    for (size_t i = 0; i < goal.values.size(); ++i) {
      classes.emplace_back(goal.values[i], goal.counts[i]);
    }
    note_class_counts(classes, draft);
    if (goal.type == ColumnType::kInteger) {
      draft.others.push_back(
          "the target as a number: 'target_type: number' in place of 'labels', 'task: regression', "
          "'metrics: [mae]'");
    }
  } else {
    draft.findings.push_back(text("predicts '{}' as a number", goal.name));
  }
  draft.others.push_back("another target: --target COLUMN");
}

/// Text classification, for a table of texts and labels.
RecipeDraft text_table_draft(TablePlan& plan, const fs::path& path, size_t column,
                             const DraftRequest& request) {
  RecipeDraft draft;
  const SniffedColumn& field = plan.table.columns[column];
  draft.title = text("Predicts '{}' from the texts of column '{}' of {}.", plan.goal().name,
                     field.name, plan.file);
  draft.folder = folder_of(path);
  add_findings(plan, draft);
  describe_goal(plan, draft);
  choose_text_model(draft, request,
                    {.kind = TextModelKind::kClasses,
                     .file = path,
                     .fields = {field.name},
                     .samples = plan.table.rows});
  draft.metric = plan.is_class() ? "accuracy" : "mae";
  const int64_t unusable = field.missing + plan.goal().missing;
  for (const fs::path& file : {path, eval_table(plan, path, {column, plan.target}, draft)}) {
    if (file.empty()) continue;
    std::vector<std::string> lines = format_lines(plan.table, file.filename().string());
    append_lines(lines,
                 {"text: " + yaml_text(field.name), kTokenizerLine, max_length_line(draft, 128)});
    append_lines(lines, target_lines(plan));
    if (unusable > 0 && file == path) {
      lines.push_back(text("on_bad_sample: skip({})  # rows without text or target", unusable));
    }
    (file == path ? draft.train : draft.eval) = std::move(lines);
  }
  if (draft.eval.empty()) hold_out(draft, plan.table.rows);
  fit_moments(plan, path.string(), draft, {column});
  draft.task = table_task(plan);
  return draft;
}

RecipeDraft feature_table_draft(TablePlan& plan, const fs::path& path) {
  RecipeDraft draft;
  draft.title =
      text("Predicts '{}' from the {} rows of {}.", plan.goal().name, plan.table.rows, plan.file);
  draft.folder = folder_of(path);
  draft.model = {"type: mlp", "hidden_sizes: [64, 64]"};
  draft.metric = plan.is_class() ? "accuracy" : "mae";
  add_findings(plan, draft);
  for (const SniffedColumn& column : plan.table.columns) {
    note_spellings(column, draft);
    note_unused_words(column, draft);
    note_infinities(column, draft);
    note_codes(column, draft);
  }
  describe_goal(plan, draft);
  draft.train = table_lines(plan, path.filename().string());
  std::vector<size_t> needed = plan.features;
  needed.push_back(plan.target);
  const fs::path other = eval_table(plan, path, needed, draft);
  if (!other.empty()) draft.eval = table_lines(plan, other.filename().string());
  if (other.empty()) hold_out(draft, plan.table.rows - plan.goal().missing);
  fit_moments(plan, path.string(), draft);
  draft.task = table_task(plan);
  draft.transform = normalize_lines(plan);
  draft.until = "20 epochs";
  draft.batch = batch_for(plan.table.rows, 32);
  return draft;
}

void check_table_wishes(const DraftRequest& request) {
  if (!request.as.empty() && request.as != "classification") {
    throw Error(ExitCode::kRecipe, text("'--as {}' is not for tables", request.as),
                "'--as classification' classifies the texts of a column");
  }
}

}  // namespace

RecipeDraft draft_table(const fs::path& path, const DraftRequest& request) {
  check_table_wishes(request);
  SniffedTable table = sniff_table(path.string(), path.extension() == ".tsv");
  TablePlan plan{table, printable(path.filename().string())};
  if (table.columns.size() == 1) {
    throw DataError(text("'{}' has one column", path.string()),
                    "a target and at least one other column are needed; the columns are separated "
                    "by a comma, a semicolon, a tab or a bar");
  }
  choose_columns(plan, path.string(), request.target);
  const bool wants_text = !request.as.empty() || plan.features.empty();
  const auto is_text = [&](const SniffedColumn& column) {
    return column.type == ColumnType::kText && (!request.as.empty() || column.words >= 3);
  };
  const auto found = std::find_if(table.columns.begin(), table.columns.end(), is_text);
  if (wants_text && found != table.columns.end()) {
    const auto column = static_cast<size_t>(found - table.columns.begin());
    for (size_t i = 0; i < plan.uses.size(); ++i) {
      if (i != plan.target) plan.uses[i] = i == column ? "text" : "left out: the text is the input";
    }
    return text_table_draft(plan, path, column, request);
  }
  if (!request.as.empty()) {
    throw Error(ExitCode::kRecipe, text("'{}' has no column of free text", path.string()),
                "leave out '--as classification'");
  }
  if (plan.features.empty()) {
    throw DataError(text("'{}' has no column of numbers or categories as features", path.string()),
                    joined(column_table(plan), "\n"));
  }
  if (!request.tokenizer.empty() || !request.model.empty()) {
    throw Error(ExitCode::kRecipe,
                text("'--tokenizer' and '--model' are for texts, and '{}' is a table of features",
                     path.string()),
                "'--as classification' classifies the texts of a column");
  }
  RecipeDraft draft = feature_table_draft(plan, path);
  if (found != table.columns.end()) {
    draft.others.push_back(
        text("the texts of column '{}' as input: --as classification", found->name));
  }
  return draft;
}

}  // namespace accel
