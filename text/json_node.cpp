#include "text/json_node.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/base/whole_number.h"
#include "formats/strict_json.h"
#include "text/unicode.h"

namespace accel {
namespace {

const nlohmann::json kNull;

/// A short description for errors.
std::string shown(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) {
    return accel::text("'{}'", printable(value.get_ref<const std::string&>()));
  }
  return value.dump();
}

}  // namespace

void JsonNode::refuse(const std::string& why) const {
  throw FormatError(accel::text("'{}' {}", printable(path_), why));
}

void JsonNode::refuse_type(const std::string& known) const {
  at("type").refuse(
      accel::text("is '{}', which is not supported; supported: {}", printable(type()), known));
}

JsonNode JsonNode::find(const std::string& name) const {
  if (!value_->is_object()) refuse(accel::text("must be an object, not {}", shown(*value_)));
  const auto member = value_->find(name);
  const std::string path = path_.empty() ? name : path_ + "." + name;
  return {member == value_->end() ? kNull : *member, path};
}

JsonNode JsonNode::at(const std::string& name) const {
  JsonNode node = find(name);
  if (!value_->contains(name)) node.refuse("is missing");
  return node;
}

std::vector<JsonNode> JsonNode::items() const {
  if (!value_->is_array()) refuse(accel::text("must be a list, not {}", shown(*value_)));
  std::vector<JsonNode> nodes;
  nodes.reserve(value_->size());
  for (const auto& item : *value_) {
    nodes.emplace_back(item, accel::text("{}[{}]", path_, nodes.size()));
  }
  return nodes;
}

bool JsonNode::is_null() const {
  return value_->is_null();
}

bool JsonNode::is_text() const {
  return value_->is_string();
}

bool JsonNode::is_object() const {
  return value_->is_object();
}

const std::string& JsonNode::text() const {
  if (!value_->is_string()) refuse(accel::text("must be a string, not {}", shown(*value_)));
  return value_->get_ref<const std::string&>();
}

uint32_t JsonNode::character() const {
  const std::string& all = text();
  if (all.empty() || character_length(all, 0) != all.size()) {
    refuse(accel::text("must be one character, not {}", shown(*value_)));
  }
  return character_at(all, 0).code;
}

int64_t JsonNode::integer(int64_t least, int64_t most) const {
  const auto number = whole_number<int64_t>(*value_);
  if (!number || *number < least || *number > most) {
    refuse(accel::text("must be an integer from {} to {}, not {}", least, most, shown(*value_)));
  }
  return *number;
}

double JsonNode::number() const {
  if (!value_->is_number() || !std::isfinite(value_->get<double>())) {
    refuse(accel::text("must be a finite number, not {}", shown(*value_)));
  }
  return value_->get<double>();
}

bool JsonNode::flag() const {
  if (!value_->is_boolean()) refuse(accel::text("must be true or false, not {}", shown(*value_)));
  return value_->get<bool>();
}

bool JsonNode::flag_or(const std::string& name, bool otherwise) const {
  const JsonNode node = find(name);
  return node.is_null() ? otherwise : node.flag();
}

std::string JsonNode::text_or(const std::string& name, const std::string& otherwise) const {
  const JsonNode node = find(name);
  return node.is_null() ? otherwise : node.text();
}

void JsonNode::only(std::initializer_list<std::string_view> names) const {
  if (!value_->is_object()) refuse(accel::text("must be an object, not {}", shown(*value_)));
  for (const auto& [key, value] : value_->items()) {
    if (key == "type" || std::find(names.begin(), names.end(), key) != names.end()) continue;
    find(key).refuse("is not supported");
  }
}

namespace {

constexpr int kMaxJsonDepth = 32;
constexpr size_t kTreePerByte = 32;  ///< a merge is ten bytes of text and three values

}  // namespace

nlohmann::json read_json_tree(std::string_view text) {
  MemoryBudget budget(text.size() * kTreePerByte, "the JSON");
  return parse_strict_json(text, "the text", kMaxJsonDepth, budget);
}

void read_json_text(std::string_view text,
                    const std::function<void(const JsonNode&, std::string_view)>& use) {
  const nlohmann::json tree = read_json_tree(text);
  use(JsonNode(tree, ""), text);
}

void read_json_file(const std::filesystem::path& path,
                    const std::function<void(const JsonNode&, std::string_view)>& use) {
  const SharedBytes file = map_file(path.string());
  try {
    read_json_text(as_text(file.view), use);
  } catch (const FormatError& error) {
    throw DataError(text("'{}': {}", path.string(), error.what()));
  }
}

}  // namespace accel
