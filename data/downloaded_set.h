// Data sets in the place where `accel-run download` puts them.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/input_path.h"
#include "core/schema.h"

namespace accel {

/// Parts that many data sets are published in.
enum class SetSplit { kTrain, kTest };

template <>
struct EnumNames<SetSplit> {
  static constexpr std::pair<SetSplit, const char*> kValues[] = {{SetSplit::kTrain, "train"},
                                                                 {SetSplit::kTest, "test"}};
};

/// The options of a dataset that can be downloaded.
struct DownloadedSetOptions {
  Auto<InputPath> path = {};
  Auto<SetSplit> split = {};
};

/// Adds the options of DownloadedSetOptions, which `Options` derives from; `path` says what a path
/// is.
template <class Options>
Schema<Options> with_downloaded_set(Schema<Options> schema, const char* path) {
  return std::move(schema)
      .field("path", static_cast<Auto<InputPath> Options::*>(&Options::path), path)
      .field("split", static_cast<Auto<SetSplit> Options::*>(&Options::split),
             "Which part of it; auto: train for training, test to evaluate on.");
}

/// `split`; auto: train for training, else test.
SetSplit wanted_split(const DownloadedSetOptions& options, bool train);

/// The folder of the set `name` when no other is asked for: `sets/NAME` in user_cache(). Empty when
/// the environment names no place for caches.
std::filesystem::path downloaded_set_folder(const std::string& name);

/// The folder that `options` mean for the set `name`. Throws DataError when it is auto and one of
/// `files`, which the download leaves there, is missing; elsewhere that is for the caller to tell.
std::filesystem::path set_folder(const DownloadedSetOptions& options, const std::string& name,
                                 const std::vector<std::string>& files);

}  // namespace accel
