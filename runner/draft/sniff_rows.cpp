#include "runner/draft/sniff_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "data/datasets/text/chat_encoder.h"
#include "formats/records/jsonl.h"

namespace accel {
namespace {

using RowJson = nlohmann::ordered_json;

constexpr size_t kMostValues = 1000;
constexpr size_t kLongestValue = 256;  ///< longer texts are not labels
constexpr int64_t kFirstRows = 100;    ///< are all looked at
constexpr int64_t kSpreadRows = 900;   ///< of the rest

template <class Test>
bool all_of_list(const RowJson& list, const Test& test) {
  return std::all_of(list.begin(), list.end(), test);
}

void add_objects(RowField& field, const RowJson& list) {
  ++field.lists_of_objects;
  int64_t bytes = 0;
  for (const RowJson& object : list) {
    ++field.messages;
    for (const auto& [key, value] : object.items()) {
      ++field.all_keys[key];
      if (!value.is_string()) continue;
      const auto& text = value.get_ref<const std::string&>();
      field.keys[key].add(text);
      ++field.key_rows[key];
      bytes += static_cast<int64_t>(text.size());
    }
  }
  field.longest = std::max(field.longest, bytes);
}

void add_items(RowField& field, const RowJson& list) {
  if (!list.empty() && all_of_list(list, [](const RowJson& item) { return item.is_object(); })) {
    add_objects(field, list);
  } else if (!list.empty() &&
             all_of_list(list, [](const RowJson& item) { return item.is_string(); })) {
    ++field.lists_of_texts;
    for (const RowJson& item : list) field.items.add(item.get_ref<const std::string&>());
  } else if (!list.empty() &&
             all_of_list(list, [](const RowJson& item) { return item.is_number_integer(); })) {
    ++field.lists_of_integers;
    for (const RowJson& item : list) field.items.add(item.dump());
  } else {
    ++field.other_lists;
    field.empty_lists += list.empty();
  }
}

void add_value(RowField& field, const RowJson& value) {
  if (value.is_null()) return;
  ++field.rows;
  if (value.is_string()) {
    add_text(field, value.get_ref<const std::string&>());
  } else if (value.is_boolean()) {
    ++field.booleans;
    field.values.add(value.dump());
  } else if (value.is_number()) {
    ++field.numbers;
    field.integers += value.is_number_integer();
    field.values.add(value.dump());
  } else if (value.is_array()) {
    add_items(field, value);
  } else {
    ++field.objects;
  }
}

void compare_lists(SniffedRows& found, const RowJson& row) {
  std::map<std::string, size_t> lengths;
  for (const auto& item : row.items()) {
    if (item.value().is_array()) lengths[item.key()] = item.value().size();
  }
  for (auto one = lengths.begin(); one != lengths.end(); ++one) {
    for (auto other = std::next(one); other != lengths.end(); ++other) {
      if (one->second != other->second) ++found.uneven_lists[{one->first, other->first}];
    }
  }
}

void add_row(SniffedRows& found, const RowJson& row) {
  compare_lists(found, row);
  for (const auto& item : row.items()) {
    const std::string& name = item.key();
    auto field = std::find_if(found.fields.begin(), found.fields.end(),
                              [&](const RowField& each) { return each.name == name; });
    if (field == found.fields.end()) {
      field = found.fields.emplace(found.fields.end());
      field->name = name;
    }
    add_value(*field, item.value());
  }
}

bool is_object(std::string_view row) {
  try {
    return read_chat_row(row).is_object();
  } catch (const FormatError&) {
    return false;
  }
}

/// The fault of a row that is not a JSON object, by its text.
std::string hint_for(std::string_view row, const std::string& path) {
  if (row.starts_with("\xff\xfe") || row.starts_with("\xfe\xff")) {
    return text("it is UTF-16; convert it: iconv -f utf-16 -t utf-8 '{}' > utf8.jsonl", path);
  }
  if (first_unreadable(row)) {
    return text("it is not UTF-8; convert it: iconv -f latin1 -t utf-8 '{}' > utf8.jsonl", path);
  }
  const std::string trim = trimmed(row);
  if (trim.ends_with(',') && is_object(trim.substr(0, trim.size() - 1))) {
    return "the lines end with a comma: remove the commas, or write '[' and ']' around all rows";
  }
  if (trim.find(",}") != trim.npos || trim.find(", }") != trim.npos) {
    return "JSON has no comma before '}'";
  }
  for (const char* word : {"NaN", "Infinity"}) {
    const size_t at = trim.find(word);
    if (at == trim.npos || !trim.starts_with('{') || !trim.ends_with('}')) continue;
    return text("JSON has no '{}': write null", word);
  }
  if (trim.starts_with('{') && !trim.ends_with('}') && !trim.ends_with("},")) {
    return "an object in each line is wanted, or an array of objects: this is one object over "
           "several lines";
  }
  return "an object in each line is wanted, or an array of objects";
}

[[noreturn]] void throw_text_after_array(const std::string& path, int64_t line,
                                         std::string_view row) {
  throw DataError(
      text("'{}' has an array in its first line, and more text in line {}", path, line),
      row.starts_with('[')
          ? "each line is a list, and an object is wanted: jq -c '{messages: .}' FILE > rows.jsonl"
          : "an object in each line is wanted, or one array of objects");
}

}  // namespace

void add_text(RowField& field, const std::string& value) {
  ++field.texts;
  field.empty_texts += trimmed(value).empty();
  field.words += std::count(value.begin(), value.end(), ' ') + 1;
  field.longest = std::max(field.longest, static_cast<int64_t>(value.size()));
  field.values.add(value);
}

void add_list(RowField& field, const std::string& json) {
  add_items(field, RowJson::parse(json));
}

void ValueCounts::add(const std::string& value) {
  if (value.size() > kLongestValue) {
    complete = false;
    return;
  }
  const auto found = counts.find(value);
  if (found != counts.end()) {
    ++found->second;
  } else if (counts.size() < kMostValues) {
    counts.emplace(value, 1);
  } else {
    complete = false;
  }
}

const RowField* SniffedRows::find(const std::string& name) const {
  for (const RowField& field : fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

SniffedRows sniff_rows(const std::string& path) {
  const SharedBytes file = map_file(path);
  const std::string_view content = as_text(file.view);
  SniffedRows found;
  found.path = path;
  found.array = JsonRows(content).is_array();
  each_json_row(content, [&](std::string_view, int64_t) { ++found.rows; });
  if (found.rows == 0) throw DataError(text("'{}' has no rows", path));
  const int64_t step = std::max<int64_t>(1, (found.rows - kFirstRows) / kSpreadRows);
  int64_t index = 0;
  each_json_row(content, [&](std::string_view row, int64_t line) {
    const int64_t at = index++;
    if (at >= kFirstRows && at % step != 0 && at + 1 != found.rows) return;
    ++found.looked_at;
    try {
      add_row(found, read_chat_row(row));
    } catch (const FormatError& error) {
      if (found.unreadable++ == 0) {
        found.first_unreadable = text("{}:{}: {}", path, line, error.what());
      }
      if (at == 0) throw DataError(found.first_unreadable, hint_for(row, path));
      if (found.array) throw_text_after_array(path, line, row);
    }
  });
  return found;
}

}  // namespace accel
