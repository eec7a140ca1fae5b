#include "checkpoint/manifest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "checkpoint/stored_layout.h"
#include "core/base/text.h"
#include "formats/checksum.h"
#include "formats/tensors/dcp.h"

namespace accel {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kFormat = 1;
/// With files in subfolders, which version 0.1.0 cannot read.
constexpr int64_t kShardedFormat = 2;
constexpr std::string_view kBeforeChecksum = "{\"checksum\": \"xxh3:";
constexpr size_t kChecksumDigits = 16;

uint64_t hex_number(const std::string& text) {
  size_t used = 0;
  const uint64_t value = std::stoull(text, &used, 16);
  if (used != text.size()) throw FormatError(accel::text("'{}' is not a hexadecimal number", text));
  return value;
}

/// JSON has no infinities and NaN: they become the hexadecimal text of their bits.
ordered_json number_json(double value) {
  if (std::isfinite(value)) return value;
  return hex_text(std::bit_cast<uint64_t>(value));
}

double number_of(const ordered_json& json) {
  if (json.is_string()) return std::bit_cast<double>(hex_number(json.get<std::string>()));
  return json.get<double>();
}

ordered_json numbers_json(const std::map<std::string, double>& numbers) {
  ordered_json out = ordered_json::object();
  for (const auto& [name, value] : numbers) out[name] = number_json(value);
  return out;
}

std::map<std::string, double> numbers_of(const ordered_json& json) {
  std::map<std::string, double> out;
  for (const auto& [name, value] : json.items()) out[name] = number_of(value);
  return out;
}

ordered_json list_json(const std::vector<double>& numbers) {
  ordered_json out = ordered_json::array();
  for (const double value : numbers) out.push_back(number_json(value));
  return out;
}

std::vector<double> list_of_doubles(const ordered_json& json) {
  std::vector<double> out;
  for (const ordered_json& value : json) out.push_back(number_of(value));
  return out;
}

ordered_json state_json(const StateDict& state) {
  ordered_json tensors = ordered_json::array();
  for (const auto& [name, tensor] : state.tensors) tensors.push_back(name);
  return {{"numbers", numbers_json(state.numbers)}, {"texts", state.texts}, {"tensors", tensors}};
}

StateDict state_of(const ordered_json& json) {
  StateDict out;
  out.numbers = numbers_of(json.at("numbers"));
  out.texts = json.at("texts").get<std::map<std::string, std::string>>();
  for (const ordered_json& name : json.at("tensors")) out.tensors[name.get<std::string>()];
  return out;
}

ordered_json progress_json(const Progress& progress) {
  return {{"step", progress.step},
          {"epoch", progress.epoch},
          {"step_in_epoch", progress.step_in_epoch},
          {"samples", progress.samples},
          {"tokens", progress.tokens}};
}

Progress progress_of(const ordered_json& json) {
  return {json.at("step"), json.at("epoch"), json.at("step_in_epoch"), json.at("samples"),
          json.at("tokens")};
}

ordered_json layout_json(const StoredLayout& layout) {
  ordered_json tensors = ordered_json::array();
  for (const StoredTensor& stored : layout.tensors) {
    ordered_json item = {{"name", stored.name}, {"shape", stored.shape}, {"parts", stored.parts}};
    if (stored.transposed) item["transposed"] = true;
    if (stored.stacked) item["stacked"] = true;
    tensors.push_back(std::move(item));
  }
  return {{"names", layout.names}, {"tensors", std::move(tensors)}};
}

StoredLayout layout_of(const ordered_json& json) {
  StoredLayout out;
  json.at("names").get_to(out.names);
  for (const ordered_json& item : json.at("tensors")) {
    StoredTensor& stored = out.tensors.emplace_back();
    item.at("name").get_to(stored.name);
    item.at("shape").get_to(stored.shape);
    item.at("parts").get_to(stored.parts);
    stored.transposed = item.value("transposed", false);
    stored.stacked = item.value("stacked", false);
    const auto is_empty = [](const auto& list) { return list.empty(); };
    const bool fits =
        !stored.stacked ||
        (stored.shape.size() >= 2 && stored.shape[0] == static_cast<int64_t>(stored.parts.size()));
    if (!fits || stored.parts.empty() ||
        std::any_of(stored.parts.begin(), stored.parts.end(), is_empty)) {
      throw FormatError(text("the layout of '{}' is invalid", stored.name));
    }
  }
  return out;
}

ordered_json body_json(const Manifest& manifest) {
  const TrainState& state = manifest.state;
  const bool sharded =
      std::any_of(manifest.files.begin(), manifest.files.end(),
                  [](const auto& file) { return file.first.find('/') != file.first.npos; });
  ordered_json out = {{"format", sharded ? kShardedFormat : kFormat},
                      {"progress", progress_json(state.progress)},
                      {"seed", state.seed},
                      {"metrics", numbers_json(state.metrics)},
                      {"facts", state.provenance},
                      {"base_lrs", list_json(state.base_lrs)},
                      {"lrs", list_json(state.lrs)},
                      {"schedule", state_json(state.schedule)}};
  if (state.scaler) out["scaler"] = state_json(*state.scaler);
  out["parts"] = ordered_json::object();
  for (const auto& [name, part] : state.sections) out["parts"][name] = state_json(part);
  out["model"] = manifest.model;
  out["tied"] = manifest.tied;
  out["optimizer"] = manifest.optimizer;
  if (state.layout) out["layout"] = layout_json(*state.layout);
  out["files"] = ordered_json::object();
  for (const auto& [name, record] : manifest.files) {
    out["files"][name] = {{"bytes", record.bytes}, {"xxh3", hex_text(record.checksum)}};
  }
  out["recipe"] = state.recipe;
  return out;
}

void check_format(const ordered_json& json) {
  const auto format = json.at("format").get<int64_t>();
  if (format == kFormat || format == kShardedFormat) return;
  throw FormatError(text("it has format {}, this accel-run reads formats {} and {}", format,
                         kFormat, kShardedFormat));
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name[0] != '.' &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

/// Names become paths: refuses those outside the folder.
const std::string& plain_name(const std::string& name) {
  const size_t slash = name.find('/');
  const std::string_view file = std::string_view(name).substr(slash == name.npos ? 0 : slash + 1);
  const bool in_folder = slash != name.npos && is_plain_name(name.substr(0, slash)) &&
                         (is_plain_name(file) || file == kDcpMetadataFile);
  if (in_folder || (slash == name.npos && is_plain_name(name))) return name;
  throw FormatError(text("'{}' is not a file name of a checkpoint", name));
}

Manifest manifest_of(const ordered_json& json) {
  check_format(json);
  Manifest out;
  TrainState& state = out.state;
  state.progress = progress_of(json.at("progress"));
  state.seed = json.at("seed");
  state.metrics = numbers_of(json.at("metrics"));
  json.at("facts").get_to(state.provenance);
  state.base_lrs = list_of_doubles(json.at("base_lrs"));
  state.lrs = list_of_doubles(json.at("lrs"));
  state.schedule = state_of(json.at("schedule"));
  if (json.contains("scaler")) state.scaler = state_of(json.at("scaler"));
  for (const auto& [name, part] : json.at("parts").items()) state.sections[name] = state_of(part);
  json.at("model").get_to(out.model);
  json.at("tied").get_to(out.tied);
  json.at("optimizer").get_to(out.optimizer);
  if (json.contains("layout")) {
    state.layout = std::make_shared<StoredLayout>(layout_of(json.at("layout")));
  }
  for (const auto& [name, record] : json.at("files").items()) {
    out.files[plain_name(name)] = {record.at("bytes"),
                                   hex_number(record.at("xxh3").get<std::string>())};
  }
  json.at("recipe").get_to(state.recipe);
  return out;
}

}  // namespace

std::string write_manifest(const Manifest& manifest) {
  std::string rest;
  try {
    rest = "\",\n\"manifest\": " + body_json(manifest).dump(1) + "}\n";
  } catch (const ordered_json::type_error&) {
    throw std::invalid_argument("a text of the checkpoint is not UTF-8");
  }
  return std::string(kBeforeChecksum) + hex_text(checksum_of(as_bytes(rest))) + rest;
}

Manifest read_manifest(std::string_view text) {
  if (!text.starts_with(kBeforeChecksum) ||
      text.size() < kBeforeChecksum.size() + kChecksumDigits) {
    throw FormatError("it does not start with its checksum");
  }
  const std::string_view rest = text.substr(kBeforeChecksum.size() + kChecksumDigits);
  const std::string_view expected = text.substr(kBeforeChecksum.size(), kChecksumDigits);
  const std::string found = hex_text(checksum_of(as_bytes(rest)));
  if (found != expected) {
    throw FormatError(
        accel::text("its content has checksum {}, its first line says {}", found, expected));
  }
  try {
    return manifest_of(ordered_json::parse(text).at("manifest"));
  } catch (const std::logic_error& error) {  // a number out of range, from std::stoull
    throw FormatError(error.what());
  } catch (const ordered_json::exception& error) {
    throw FormatError(accel::text("it is not a manifest: {}", error.what()));
  }
}

}  // namespace accel
