#include "runner/formats/jsonl.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "runner/formats/strict_json.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr size_t kMaxLine = size_t{16} << 20;
constexpr int kMaxDepth = 64;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string keys_of(const json& object) {
  std::string keys;
  for (const auto& [key, value] : object.items()) {
    keys += keys.empty() ? "'" : ", '";
    keys += key.substr(0, 60) + "'";
    if (keys.size() > 200) return keys + ", ...";
  }
  return keys;
}

/// The field as text, when it has one.
std::string text_of(json& object, const std::string& field, const std::string& place) {
  const auto found = object.find(field);
  if (found == object.end()) {
    const std::string keys = keys_of(object);
    throw DataError(place + " has no field '" + field + "'",
                    keys.empty() ? "it has no field at all" : "it has the fields " + keys);
  }
  if (found->is_string()) return std::move(found->get_ref<std::string&>());
  if (found->is_number() || found->is_boolean()) return found->dump();
  throw DataError(place + ": field '" + field + "' is of the kind '" + found->type_name() +
                      "', not a text, a number, true or false",
                  "leave such lines out of the file");
}

}  // namespace

JsonlReader::JsonlReader(std::span<const std::byte> text, std::vector<std::string> wanted,
                         std::string name)
    : text_(reinterpret_cast<const char*>(text.data()), text.size()),
      wanted_(std::move(wanted)),
      name_(std::move(name)),
      values_(wanted_.size()) {
  if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
}

bool JsonlReader::next_line(std::string_view& line) {
  while (at_ < text_.size()) {
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    line = text_.substr(at_, end - at_);
    at_ = end + 1;
    ++line_;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) return true;
  }
  return false;
}

bool JsonlReader::next(std::vector<std::string_view>& fields) {
  fields.clear();
  std::string_view line;
  if (!next_line(line)) return false;
  if (line.size() > kMaxLine) throw DataError(place() + ": a line of more than 16 MiB");
  json object;
  try {
    MemoryBudget budget(line.size(), place());
    object = parse_strict_json(line, place(), kMaxDepth, budget);
  } catch (const FormatError& error) {
    throw DataError(error.what(), "each line is to be one object: {\"text\": \"...\"}");
  }
  for (size_t i = 0; i < wanted_.size(); ++i) {
    // A field may be wanted twice, and its text is moved away.
    const auto before =
        std::find(wanted_.begin(), wanted_.begin() + static_cast<ptrdiff_t>(i), wanted_[i]);
    const auto same = static_cast<size_t>(before - wanted_.begin());
    values_[i] = same < i ? values_[same] : text_of(object, wanted_[i], place());
  }
  fields.assign(values_.begin(), values_.end());
  return true;
}

}  // namespace accel
