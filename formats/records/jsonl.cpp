#include "formats/records/jsonl.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "formats/strict_json.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr size_t kMaxLine = size_t{16} << 20;
constexpr int kMaxDepth = 64;
constexpr std::string_view kSpace = " \t\r\n";

std::string keys_of(const json& object) {
  std::string keys;
  for (const auto& [key, value] : object.items()) {
    keys += keys.empty() ? "'" : ", '";
    keys += key.substr(0, 60) + "'";
    if (keys.size() > 200) return accel::text("{}, ...", keys);
  }
  return keys;
}

/// The field as text.
std::string text_of(json& object, const std::string& field, const std::string& location,
                    bool may_be_list) {
  const auto found = object.find(field);
  if (found == object.end()) {
    const std::string keys = keys_of(object);
    throw DataError(text("{} has no field '{}'", location, field),
                    keys.empty() ? "it has no fields" : text("it has the fields {}", keys));
  }
  if (found->is_string()) return std::move(found->get_ref<std::string&>());
  if (may_be_list && found->is_array()) return found->dump();
  if (found->is_number() || found->is_boolean()) return found->dump();
  throw DataError(text("{}: field '{}' has the type '{}', a string, number or boolean wanted",
                       location, field, found->type_name()),
                  "remove such lines from the file");
}

}  // namespace

JsonRows::JsonRows(std::string_view text) : text_(text) {
  if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  const size_t first = text_.find_first_not_of(kSpace, at_);
  is_array_ = first != text_.npos && text_[first] == '[';
  if (!is_array_) return;
  skip_space();
  ++at_;
}

bool JsonRows::next(std::string_view& row) {
  return is_array_ ? next_element(row) : next_line(row);
}

bool JsonRows::next_line(std::string_view& row) {
  while (at_ < text_.size()) {
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    row = text_.substr(at_, end - at_);
    at_ = end + 1;
    row_line_ = line_++;
    if (row.find_first_not_of(kSpace) != std::string_view::npos) return true;
  }
  return false;
}

/// Text after the array is a row too, so that it is not lost.
bool JsonRows::next_element(std::string_view& row) {
  skip_space();
  if (at_ < text_.size() && text_[at_] == ',' && row_line_ > 0) {
    ++at_;
    skip_space();
  }
  if (at_ < text_.size() && text_[at_] == ']') {
    ++at_;
    skip_space();
  }
  if (at_ >= text_.size()) return false;
  row_line_ = line_;
  const size_t end = end_of_element();
  row = text_.substr(at_, end - at_);
  line_ += std::count(row.begin(), row.end(), '\n');
  at_ = end;
  return true;
}

void JsonRows::skip_space() {
  for (; at_ < text_.size() && kSpace.find(text_[at_]) != kSpace.npos; ++at_) {
    line_ += text_[at_] == '\n';
  }
}

/// At the comma or bracket after the element that begins here; never here.
size_t JsonRows::end_of_element() const {
  int depth = 0;
  bool in_string = false;
  for (size_t i = at_; i < text_.size(); ++i) {
    const char c = text_[i];
    if (in_string) {
      i += c == '\\';
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == ',' || c == ']' || c == '}') && depth == 0) {
      return std::max(i, at_ + 1);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return text_.size();
}

JsonlReader::JsonlReader(std::span<const std::byte> text, std::vector<std::string> wanted,
                         std::string name, std::set<std::string> lists)
    : rows_(std::string_view(reinterpret_cast<const char*>(text.data()), text.size())),
      wanted_(std::move(wanted)),
      lists_(std::move(lists)),
      name_(std::move(name)),
      values_(wanted_.size()) {}

bool JsonlReader::next(std::vector<std::string_view>& fields) {
  fields.clear();
  std::string_view line;
  if (!rows_.next(line)) return false;
  if (line.size() > kMaxLine)
    throw DataError(accel::text("{}: a line of more than 16 MiB", location()));
  json object;
  try {
    MemoryBudget budget(line.size(), location());
    object = parse_python_json(line, location(), kMaxDepth, budget);
  } catch (const FormatError& error) {
    throw DataError(error.what(), "each line must be one object: {\"text\": \"...\"}");
  }
  for (size_t i = 0; i < wanted_.size(); ++i) {
    // text_of() moves the text, and a field may be wanted twice.
    const auto before =
        std::find(wanted_.begin(), wanted_.begin() + static_cast<ptrdiff_t>(i), wanted_[i]);
    const auto same = static_cast<size_t>(before - wanted_.begin());
    values_[i] = same < i ? values_[same]
                          : text_of(object, wanted_[i], location(), lists_.contains(wanted_[i]));
  }
  fields.assign(values_.begin(), values_.end());
  return true;
}

}  // namespace accel
