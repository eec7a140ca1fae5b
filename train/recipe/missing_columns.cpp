#include "train/recipe/missing_columns.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/api/input_path.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "data/datasets/table_text.h"
#include "data/datasets/text/text_records.h"
#include "train/recipe/recipe_values.h"

namespace accel {
namespace {

/// The options of a table without the keys of a list entry.
Node own_options(const Node& dataset) {
  Node out = dataset;
  const std::vector<FieldInfo> extra = MixturePart::schema().info();
  std::erase_if(*out.map(), [&](const Node::Entry& entry) {
    return entry.key == "type" || std::any_of(extra.begin(), extra.end(), [&](const auto& field) {
             return field.name == entry.key;
           });
  });
  return out;
}

using UseColumn = std::function<void(const std::string& column, const Span& where)>;

/// Calls `use` with the names in an option's value: a text, a list of texts, or the keys of a
/// section.
void each_column(const Node& options, const char* option, const UseColumn& use) {
  const Node::Entry* entry = options.find(option);
  if (!entry) return;
  const auto look_at = [&](const std::string& column, const Span& where) {
    if (!column.empty()) use(column, where);
  };
  const Node& value = entry->node;
  if (value.scalar()) look_at(value.scalar()->text, value.where);
  if (const Node::List* list = value.list()) {
    for (const Node& item : *list) {
      if (item.scalar()) look_at(item.scalar()->text, item.where);
    }
  }
  if (const Node::Map* map = value.map()) {
    for (const Node::Entry& item : *map) look_at(item.key, item.where);
  }
}

/// `split`: the section whose `group` names a column; may be null.
void look_at_table(const Node& dataset, bool csv, const Node* split, Reading& reading) {
  Diagnostics reported_later;
  Reading own{reported_later, reading.registry};
  const Node node = own_options(dataset);
  const TableOptions options = TableOptions::schema().read(node, own);
  if (!reported_later.empty()) return;
  const TableText text(options, {.delimiter = csv ? ',' : '\t', .quoting = csv},
                       map_file(options.path.text));
  const ColumnNames names = text.columns();
  const auto check = [&](const Node& section, const char* option) {
    each_column(section, option, [&](const std::string& column, const Span& where) {
      try {
        names.find(column, option);
      } catch (const Error& error) {
        reading.problems.error(where, error.what(), error.hint());
      }
    });
  };
  for (const char* option : {"target", "features", "text", "one_hot", "booleans", "dates"}) {
    check(node, option);
  }
  const Node::Entry* fill = node.find("fill");
  if (fill && fill->node.map()) check(node, "fill");
  if (split) check(*split, "group");
}

/// Looks for the fields in the first line.
void look_at_lines(const Node& dataset, const Node* split, Reading& reading) {
  const Node::Entry* bad = dataset.find("on_bad_sample");
  const Node::Entry* path = dataset.find("path");
  if (!path || (bad && bad->node.scalar() && bad->node.scalar()->text != "stop")) return;
  Diagnostics reported_later;
  Reading own{reported_later, reading.registry};
  const auto file = Codec<InputFile>::read(path->node, "path", own);
  if (!file) return;
  const std::unique_ptr<RecordSource> lines = json_lines_source(file->text);
  const UseColumn check = [&](const std::string& field, const Span& where) {
    std::vector<std::string_view> fields;
    try {
      lines->open({field})->next(fields);
    } catch (const DataError& error) {
      if (std::string(error.what()).find("has no field") == std::string::npos) return;
      reading.problems.error(where, error.what(), error.hint());
    }
  };
  each_column(dataset, "text", check);
  each_column(dataset, "target", check);
  if (split) each_column(*split, "group", check);
}

void look_at_dataset(const Node& dataset, const Node* split, Reading& reading) {
  const Node::Entry* entry = dataset.find("type");
  if (!entry || !entry->node.scalar()) return;
  const std::string& type = entry->node.scalar()->text;
  try {
    if (type == "csv" || type == "tsv") look_at_table(dataset, type == "csv", split, reading);
    const bool rows = type == "jsonl" || type == "chat" || type == "token_classification";
    if (rows) look_at_lines(dataset, split, reading);
  } catch (const Error& error) {
    // Faults of the data are reported with their own exit code when it is opened.
    if (error.code() != ExitCode::kRecipe) return;
    const Node::Entry* path = dataset.find("path");
    reading.problems.error(path ? path->node.where : entry->node.where, error.what(), error.hint());
  }
}

}  // namespace

void report_missing_columns(const Node& recipe, Reading& reading) {
  const Node::Entry* data = recipe.find("data");
  if (!data) return;
  const Node::Entry* split = data->node.find("split");
  for (const std::string section : {"train", "eval"}) {
    const Node::Entry* entry = data->node.find(section);
    if (!entry) continue;
    const Node* held_out = split && section == "train" ? &split->node : nullptr;
    const Node::List one = {entry->node};
    for (const Node& dataset : entry->node.list() ? *entry->node.list() : one) {
      look_at_dataset(dataset, held_out, reading);
    }
  }
}

}  // namespace accel
