#include "runner/draft/field_texts.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "data/datasets/hub/arrow_rows.h"
#include "data/datasets/text/chat_encoder.h"
#include "formats/records/conll.h"
#include "formats/records/csv_dialect.h"
#include "formats/records/jsonl.h"

namespace accel {
namespace {

using FieldJson = nlohmann::ordered_json;

/// Collects the texts of a value: a text, or texts in lists.
void append_value(const FieldJson& value, std::vector<std::string>& texts) {
  if (value.is_string()) texts.push_back(value.get<std::string>());
  if (!value.is_array()) return;
  for (const FieldJson& item : value) append_value(item, texts);
}

/// The fields to collect, and those seen.
struct WantedFields {
  const std::vector<std::string>& names;
  std::set<std::string> seen = {};

  bool has(const std::string& name) {
    const bool wanted = std::find(names.begin(), names.end(), name) != names.end();
    if (wanted) seen.insert(name);
    return wanted;
  }
  void check(const std::string& path) const {
    for (const std::string& name : names) {
      if (!seen.contains(name)) throw DataError(text("'{}' has no field '{}'", path, name));
    }
  }
};

void append_json(const FieldJson& value, WantedFields& fields, std::vector<std::string>& texts) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) {
      if (fields.has(key)) append_value(inner, texts);
      append_json(inner, fields, texts);
    }
  } else if (value.is_array()) {
    for (const FieldJson& item : value) append_json(item, fields, texts);
  }
}

void append_rows(const std::string& path, WantedFields& fields, std::vector<std::string>& texts) {
  const SharedBytes file = map_file(path);
  int64_t skipped = 0, first = 0;
  each_json_row(as_text(file.view), [&](std::string_view row, int64_t line) {
    try {
      append_json(read_chat_row(row), fields, texts);
    } catch (const FormatError&) {
      if (skipped++ == 0) first = line;
    }
  });
  if (skipped == 0) return;
  warn(text("rows of '{}' that are not JSON objects are left out: {}, the first in line {}", path,
            skipped, first));
}

void append_columns(const std::string& path, bool tab, WantedFields& fields,
                    std::vector<std::string>& texts) {
  const SharedBytes file = map_file(path);
  const CsvDialect usual = {tab ? '\t' : ',', !tab};
  CsvReader reader(file.view, detect_dialect(file.view, usual).dialect, path);
  std::vector<std::string_view> record;
  if (!reader.next(record)) throw DataError(text("'{}' is empty", path));
  std::vector<size_t> columns;
  for (size_t i = 0; i < record.size(); ++i) {
    const bool named = fields.has(std::string(record[i]));
    if (!named && !fields.has(std::to_string(i))) continue;
    if (!named) texts.emplace_back(record[i]);  // a number is a column of a table without header
    columns.push_back(i);
  }
  while (reader.next(record)) {
    for (const size_t column : columns) texts.emplace_back(record[column]);
  }
}

/// The columns of a CoNLL file, by their numbers from 0, joined to a text for each sentence. False
/// for another file.
bool append_conll(const std::string& path, WantedFields& fields, std::vector<std::string>& texts) {
  const SharedBytes file = map_file(path);
  const std::string_view content = as_text(file.view);
  ConllFormat format;
  if (!detect_conll(content, format)) return false;
  std::vector<size_t> columns;
  for (size_t i = 0; i < format.columns; ++i) {
    if (fields.has(std::to_string(i))) columns.push_back(i);
  }
  ConllReader reader(content, format.comment, format.word_column > 0);
  for (std::vector<ConllToken> sentence; reader.next(sentence);) {
    for (const size_t column : columns) {
      std::string& line = texts.emplace_back();
      for (const ConllToken& token : sentence) {
        if (column < token.columns.size()) line.append(token.columns[column]).append(" ");
      }
    }
  }
  return true;
}

/// The texts of columns of a Parquet or Arrow file, also of lists; nulls are left out.
void append_file_columns(const std::string& path, bool arrow, WantedFields& fields,
                         std::vector<std::string>& texts) {
  const ArrowRows rows({{path}, {}}, arrow ? ArrowFormat::kIpc : ArrowFormat::kParquet);
  std::vector<std::string> columns;
  std::vector<ArrowField> kinds;
  for (const ArrowColumn& column : rows.columns()) {
    if (!fields.has(column.name)) continue;
    const bool is_list = column.value == ArrowColumn::Value::kTexts;
    columns.push_back(column.name);
    kinds.push_back(is_list ? ArrowField::kNames : ArrowField::kText);
  }
  fields.check(path);
  const std::unique_ptr<RecordReader> reader = rows.open_with_nulls(columns, kinds);
  std::vector<std::string_view> record;
  while (reader->next(record)) {
    for (size_t i = 0; i < record.size(); ++i) {
      if (!record[i].data()) continue;
      if (kinds[i] == ArrowField::kText) {
        texts.emplace_back(record[i]);
        continue;
      }
      for (const auto& item : nlohmann::ordered_json::parse(record[i])) {
        if (item.is_string()) texts.push_back(item.get<std::string>());
      }
    }
  }
}

}  // namespace

void append_field_texts(const std::string& path, const std::vector<std::string>& fields,
                        std::vector<std::string>& texts) {
  const std::string extension = ascii_lower(std::filesystem::path(path).extension().string());
  WantedFields wanted{fields};
  if (extension == ".json" || extension == ".jsonl") {
    append_rows(path, wanted, texts);
  } else if (append_conll(path, wanted, texts)) {
    // CoNLL files have many extensions, also that of tables.
  } else if (extension == ".csv" || extension == ".tsv") {
    append_columns(path, extension == ".tsv", wanted, texts);
  } else if (extension == ".parquet" || extension == ".arrow") {
    append_file_columns(path, extension == ".arrow", wanted, texts);
  } else {
    throw DataError(text("'--fields' is for .jsonl, .json, .csv, .tsv, .parquet, .arrow and CoNLL "
                         "files, not '{}'",
                         path),
                    "leave it out: a text file is trained on as it is");
  }
  wanted.check(path);
}

}  // namespace accel
