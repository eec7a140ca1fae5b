#include "formats/arrow/class_names.h"

#include <arrow/util/key_value_metadata.h>

#include <nlohmann/json.hpp>

namespace accel {
namespace {

/// The features of Hugging Face datasets in the schema's metadata; null without them.
nlohmann::json features_in(const arrow::Schema& schema) {
  const auto json = schema.metadata() ? schema.metadata()->Get("huggingface")
                                      : arrow::Result<std::string>(arrow::Status::KeyError(""));
  if (!json.ok()) return {};
  const auto metadata = nlohmann::json::parse(*json, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json::json_pointer features("/info/features");
  return metadata.is_object() && metadata.contains(features) ? metadata.at(features)
                                                             : nlohmann::json();
}

/// The feature of the values of a list: `List` or, before datasets 4, `Sequence` or a list of one.
nlohmann::json item_feature(const nlohmann::json& feature) {
  if (feature.is_array() && feature.size() == 1) return feature.front();
  return feature.is_object() && feature.contains("feature") ? feature.at("feature")
                                                            : nlohmann::json();
}

}  // namespace

std::vector<std::string> names_of_classes(const arrow::Schema& schema, const std::string& field,
                                          bool in_lists) {
  const nlohmann::json features = features_in(schema);
  if (!features.is_object() || !features.contains(field)) return {};
  const nlohmann::json& whole = features.at(field);
  const nlohmann::json feature = in_lists ? item_feature(whole) : whole;
  if (!feature.is_object() || !feature.contains("names")) return {};
  std::vector<std::string> names;
  for (const auto& name : feature.at("names")) {
    if (!name.is_string()) return {};
    names.push_back(name.get<std::string>());
  }
  return names;
}

}  // namespace accel
