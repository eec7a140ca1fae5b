#include "train/job/data_schema.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace accel {
namespace {

using nlohmann::json;

DType type_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(DType::kF64); ++i) {
    if (name == name_of(static_cast<DType>(i))) return static_cast<DType>(i);
  }
  throw std::invalid_argument("unknown type");
}

}  // namespace

std::string shape_text(const DataShape& shape) {
  json out = {{"input", shape.input},      {"input_type", name_of(shape.input_type)},
              {"target", shape.target},    {"target_type", name_of(shape.target_type)},
              {"classes", shape.classes},  {"vocab", shape.vocab},
              {"labels", shape.labels},    {"special_tokens", shape.special_tokens},
              {"segments", shape.segments}};
  if (shape.mask_token) out["mask_token"] = *shape.mask_token;
  if (shape.padding) out["padding"] = {shape.padding->input, shape.padding->multiple};
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

DataShape shape_of_text(const std::string& text) try {
  const json in = json::parse(text);
  DataShape shape;
  shape.input = in.at("input").get<Shape>();
  shape.input_type = type_named(in.at("input_type").get<std::string>());
  shape.target = in.at("target").get<Shape>();
  shape.target_type = type_named(in.at("target_type").get<std::string>());
  shape.classes = in.at("classes").get<int64_t>();
  shape.vocab = in.at("vocab").get<int64_t>();
  shape.labels = in.at("labels").get<std::vector<std::string>>();
  shape.special_tokens = in.at("special_tokens").get<std::vector<int64_t>>();
  shape.segments = in.at("segments").get<int64_t>();
  if (in.contains("mask_token")) shape.mask_token = in["mask_token"].get<int64_t>();
  if (in.contains("padding")) {
    shape.padding = Padding{in["padding"].at(0).get<int64_t>(), in["padding"].at(1).get<int64_t>()};
  }
  return shape;
} catch (const std::exception&) {
  throw CheckpointError("the checkpoint's data schema is invalid",
                        "it was made by another version");
}

}  // namespace accel
