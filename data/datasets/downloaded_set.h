// Datasets stored by `accel-run download`.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/api/input_path.h"
#include "core/recipe/schema.h"

namespace accel {

/// Splits of a published dataset.
enum class SetSplit { kTrain, kTest };

template <>
struct EnumNames<SetSplit> {
  static constexpr std::pair<SetSplit, const char*> kValues[] = {{SetSplit::kTrain, "train"},
                                                                 {SetSplit::kTest, "test"}};
};

/// Options of a downloadable dataset.
struct DownloadedSetOptions {
  Auto<InputPath> path = {};
  Auto<SetSplit> split = {};
};

/// Adds DownloadedSetOptions, a base of `Options`, to a schema; `path` documents the option.
template <class Options>
Schema<Options> with_downloaded_set(Schema<Options> schema, const char* path) {
  return std::move(schema)
      .field("path", static_cast<Auto<InputPath> Options::*>(&Options::path), path)
      .field("split", static_cast<Auto<SetSplit> Options::*>(&Options::split),
             "Which part of it; auto: train for training, test to evaluate on.");
}

/// `split`; auto: train for training, else test.
SetSplit wanted_split(const DownloadedSetOptions& options, bool train);

/// The default folder of dataset `name`: `sets/NAME` in user_cache(). Empty without a cache folder
/// in the environment.
std::filesystem::path downloaded_set_folder(const std::string& name);

/// The folder of dataset `name` for `options`. Throws DataError if the path is auto and one of the
/// downloaded `files` is missing; for other paths the caller reports missing files.
std::filesystem::path set_folder(const DownloadedSetOptions& options, const std::string& name,
                                 const std::vector<std::string>& files);

}  // namespace accel
