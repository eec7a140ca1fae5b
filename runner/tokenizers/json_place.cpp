#include "runner/tokenizers/json_place.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/utf8.h"
#include "core/whole_number.h"
#include "runner/formats/format_error.h"
#include "runner/tokenizers/unicode.h"

namespace accel {
namespace {

const nlohmann::json kNothing;

/// How a value reads in an error, short.
std::string shown(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return "'" + printable(value.get_ref<const std::string&>()) + "'";
  return value.dump();
}

}  // namespace

void JsonPlace::refuse(const std::string& why) const {
  throw FormatError("'" + printable(path_) + "' " + why);
}

void JsonPlace::refuse_type(const std::string& known) const {
  at("type").refuse("is '" + printable(type()) + "', which is not supported; supported: " + known);
}

JsonPlace JsonPlace::find(const std::string& name) const {
  if (!value_->is_object()) refuse("must be an object, not " + shown(*value_));
  const auto member = value_->find(name);
  const std::string path = path_.empty() ? name : path_ + "." + name;
  return {member == value_->end() ? kNothing : *member, path};
}

JsonPlace JsonPlace::at(const std::string& name) const {
  JsonPlace place = find(name);
  if (!value_->contains(name)) place.refuse("is missing");
  return place;
}

std::vector<JsonPlace> JsonPlace::items() const {
  if (!value_->is_array()) refuse("must be a list, not " + shown(*value_));
  std::vector<JsonPlace> places;
  places.reserve(value_->size());
  for (const auto& item : *value_) {
    places.emplace_back(item, path_ + "[" + std::to_string(places.size()) + "]");
  }
  return places;
}

bool JsonPlace::is_null() const {
  return value_->is_null();
}

bool JsonPlace::is_text() const {
  return value_->is_string();
}

bool JsonPlace::is_object() const {
  return value_->is_object();
}

const std::string& JsonPlace::text() const {
  if (!value_->is_string()) refuse("must be a text, not " + shown(*value_));
  return value_->get_ref<const std::string&>();
}

uint32_t JsonPlace::character() const {
  const std::string& all = text();
  if (all.empty() || character_length(all, 0) != all.size()) {
    refuse("must be one character, not " + shown(*value_));
  }
  return character_at(all, 0).code;
}

int64_t JsonPlace::integer(int64_t least, int64_t most) const {
  const auto number = whole_number<int64_t>(*value_);
  if (!number || *number < least || *number > most) {
    refuse("must be a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
           ", not " + shown(*value_));
  }
  return *number;
}

double JsonPlace::number() const {
  if (!value_->is_number() || !std::isfinite(value_->get<double>())) {
    refuse("must be a finite number, not " + shown(*value_));
  }
  return value_->get<double>();
}

bool JsonPlace::flag() const {
  if (!value_->is_boolean()) refuse("must be true or false, not " + shown(*value_));
  return value_->get<bool>();
}

bool JsonPlace::flag_or(const std::string& name, bool otherwise) const {
  const JsonPlace place = find(name);
  return place.is_null() ? otherwise : place.flag();
}

std::string JsonPlace::text_or(const std::string& name, const std::string& otherwise) const {
  const JsonPlace place = find(name);
  return place.is_null() ? otherwise : place.text();
}

void JsonPlace::only(std::initializer_list<std::string_view> names) const {
  if (!value_->is_object()) refuse("must be an object, not " + shown(*value_));
  for (const auto& [key, value] : value_->items()) {
    if (key == "type" || std::find(names.begin(), names.end(), key) != names.end()) continue;
    find(key).refuse("is not supported");
  }
}

}  // namespace accel
