#include "models/hf/hf_config.h"

#include <nlohmann/json.hpp>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/base/whole_number.h"
#include "formats/strict_json.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr int kConfigDepth = 32;
constexpr size_t kMaxConfigBytes = size_t{64} << 20;

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() <= 80) return text;
  text.resize(77);
  return text.append("...");
}

std::shared_ptr<const json> parse_config(std::string_view text, const std::string& path) {
  if (text.size() > kMaxConfigBytes) {
    throw DataError(
        accel::text("'{}' has {} bytes, too many for the config of a model", path, text.size()));
  }
  try {
    MemoryBudget budget(8 * text.size(), single_quoted(path));
    return std::make_shared<const json>(
        parse_strict_json(text, single_quoted(path), kConfigDepth, budget));
  } catch (const FormatError& error) {
    throw DataError(error.what());
  }
}

}  // namespace

HfConfig::HfConfig(const std::string& folder) : path_(folder + "/config.json") {
  const SharedBytes file = map_file(path_);
  values_ = parse_config(as_text(file.view), path_);
}

HfConfig::HfConfig(std::string_view text, std::string path) : path_(std::move(path)) {
  values_ = parse_config(text, path_);
}

const json* HfConfig::find(const char* key) const {
  const auto found = values_->find(key);
  return found == values_->end() || found->is_null() ? nullptr : &*found;
}

bool HfConfig::has(const char* key) const {
  return find(key) != nullptr;
}

std::string HfConfig::model_type() const {
  const json* value = find("model_type");
  return value && value->is_string() ? value->get<std::string>() : "";
}

std::string HfConfig::architecture() const {
  const json* value = find("architectures");
  if (!value || !value->is_array() || value->empty() || !value->front().is_string()) return "";
  return value->front().get<std::string>();
}

void HfConfig::wrong_type(const char* key, const char* wanted) {
  const json* value = find(key);
  refuse(value ? accel::text("'{}' has {} for '{}', which must be {}", path_, shown(*value), key,
                             wanted)
               : accel::text("'{}' lacks '{}', which must be {}", path_, key, wanted));
}

int64_t HfConfig::integer(const char* key) {
  const json* value = find(key);
  if (const auto number = value ? whole_number<int64_t>(*value) : std::nullopt) return *number;
  wrong_type(key, "a whole number");
  return 0;
}

int64_t HfConfig::integer(const char* key, int64_t fallback) {
  return has(key) ? integer(key) : fallback;
}

std::vector<int64_t> HfConfig::integers(const char* key) {
  const json* value = find(key);
  if (!value) return {};
  std::vector<int64_t> out;
  for (const json& item : *value) {
    const auto number = whole_number<int64_t>(item);
    if (!value->is_array() || !number) {
      wrong_type(key, "a list of whole numbers");
      return {};
    }
    out.push_back(*number);
  }
  return out;
}

double HfConfig::number(const char* key, double fallback) {
  const json* value = find(key);
  if (!value) return fallback;
  if (value->is_number()) return value->get<double>();
  wrong_type(key, "a number");
  return fallback;
}

bool HfConfig::flag(const char* key, bool fallback) {
  const json* value = find(key);
  if (!value) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  wrong_type(key, "true or false");
  return fallback;
}

std::string HfConfig::text(const char* key, const std::string& fallback) {
  const json* value = find(key);
  if (!value) return fallback;
  if (value->is_string()) return value->get<std::string>();
  wrong_type(key, "a text");
  return fallback;
}

HfConfig HfConfig::section(const char* key) {
  const json* value = find(key);
  if (value && !value->is_object()) wrong_type(key, "a section");
  const std::string text = value && value->is_object() ? value->dump() : "{}";
  return {text, path_};
}

void HfConfig::want(const char* key, const json& wanted, const char* why) {
  const json* value = find(key);
  if (!value || *value == wanted) return;
  refuse(accel::text("'{}' has {} for '{}', which {}", path_, shown(*value), key, why));
}

}  // namespace accel
