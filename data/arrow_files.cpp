#include "data/arrow_files.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "runner/formats/format_error.h"
#include "runner/formats/mapped_file.h"
#include "runner/formats/plain_file_name.h"
#include "runner/formats/strict_json.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kMaxDepth = 32;

json read_json(const fs::path& path) {
  const SharedBytes file = map_file(path.string());
  const std::string_view text(reinterpret_cast<const char*>(file.view.data()), file.view.size());
  try {
    MemoryBudget budget(text.size(), path.string());
    return parse_strict_json(text, "'" + path.string() + "'", kMaxDepth, budget);
  } catch (const FormatError& error) {
    throw DataError(error.what(), "save the dataset once more");
  }
}

std::string listed(const std::set<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    out.append(out.empty() ? "'" : ", '").append(name).append("'");
  }
  return out;
}

/// Throws unless `split` names one of several.
void require_split(const std::string& path, const std::set<std::string>& splits,
                   const std::string& split) {
  if (splits.contains(split)) return;
  throw DataError("'" + path + "' holds the splits " + listed(splits) +
                      (split.empty() ? "" : ", not '" + split + "'"),
                  "name one of them with 'split'");
}

/// The splits of a saved DatasetDict; empty for any other folder.
std::set<std::string> saved_splits(const fs::path& folder) {
  const fs::path path = folder / "dataset_dict.json";
  if (!fs::exists(path)) return {};
  const json told = read_json(path);
  std::set<std::string> splits;
  if (told.contains("splits") && told["splits"].is_array()) {
    for (const json& split : told["splits"]) {
      if (split.is_string() && is_plain_file_name(split.get_ref<const std::string&>())) {
        splits.insert(split.get<std::string>());
      }
    }
  }
  if (splits.empty()) throw DataError("'" + path.string() + "' names no splits");
  return splits;
}

/// The files that a saved dataset's state lists under `key`.
std::vector<std::string> listed_files(const fs::path& folder, const json& state, const char* key) {
  const fs::path path = folder / "state.json";
  std::vector<std::string> files;
  const json list = state.value(key, json());
  if (!list.is_array()) return files;
  for (const json& file : list) {
    const json name = file.is_object() ? file.value("filename", json()) : json();
    if (!name.is_string() || !is_plain_file_name(name.get_ref<const std::string&>())) {
      throw DataError("'" + path.string() + "' does not name its files");
    }
    files.push_back(folder / name.get<std::string>());
  }
  return files;
}

/// The files of a saved dataset. One that was shuffled, sorted or selected from has indices.
ArrowFiles saved_files(const fs::path& folder) {
  const fs::path path = folder / "state.json";
  const json state = read_json(path);
  ArrowFiles files = {listed_files(folder, state, "_data_files"),
                      listed_files(folder, state, "_indices_files")};
  if (files.data.empty()) throw DataError("'" + path.string() + "' does not name its files");
  return files;
}

/// "train" of "train-00000-of-00002.parquet"; else empty.
std::string split_of(const std::string& name) {
  const size_t of = name.find("-of-");
  const size_t dash = of == std::string::npos || of == 0 ? of : name.rfind('-', of - 1);
  return dash == std::string::npos ? "" : name.substr(0, dash);
}

std::vector<std::string> plain_files(const fs::path& folder, const std::string& split,
                                     const std::string& extension) {
  std::vector<std::string> names;
  std::set<std::string> splits;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (entry.path().extension() != extension || !entry.is_regular_file()) continue;
    names.push_back(name);
    splits.insert(split_of(name));
  }
  if (names.empty()) throw DataError("no '*" + extension + "' files in '" + folder.string() + "'");
  if (splits.size() > 1 || !split.empty()) require_split(folder.string(), splits, split);
  std::sort(names.begin(), names.end());
  std::vector<std::string> files;
  for (const std::string& name : names) {
    if (split.empty() || split_of(name) == split) files.push_back(folder / name);
  }
  return files;
}

}  // namespace

ArrowFiles arrow_files(const std::string& path, const std::string& split, ArrowFormat format) {
  if (!fs::is_directory(path)) {
    if (!split.empty()) {
      throw DataError("'split' is for a folder, and '" + path + "' is none");
    }
    return {{path}, {}};
  }
  fs::path folder = path;
  bool chosen = false;
  if (const auto splits = saved_splits(folder); !splits.empty()) {
    require_split(path, splits, split);
    folder /= split;
    chosen = true;
  }
  if (format == ArrowFormat::kIpc && fs::exists(folder / "state.json")) {
    if (!split.empty() && !chosen) {
      throw DataError("'" + path + "' is one dataset without splits", "leave out 'split'");
    }
    return saved_files(folder);
  }
  const char* const extension = format == ArrowFormat::kParquet ? ".parquet" : ".arrow";
  return {plain_files(folder, chosen ? "" : split, extension), {}};
}

}  // namespace accel
