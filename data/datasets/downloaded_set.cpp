#include "data/datasets/downloaded_set.h"

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/datasets/text/token_cache.h"

namespace accel {

namespace fs = std::filesystem;

SetSplit wanted_split(const DownloadedSetOptions& options, bool train) {
  if (options.split) return *options.split;
  return train ? SetSplit::kTrain : SetSplit::kTest;
}

fs::path downloaded_set_folder(const std::string& name) {
  const fs::path cache = user_cache();
  return cache.empty() ? cache : cache / "sets" / name;
}

fs::path set_folder(const DownloadedSetOptions& options, const std::string& name,
                    const std::vector<std::string>& files) {
  if (options.path) return fs::path((*options.path).text);
  const fs::path folder = downloaded_set_folder(name);
  if (folder.empty()) {
    throw DataError(
        accel::text("no folder for the dataset '{}': neither XDG_CACHE_HOME nor HOME is set", name),
        "name the folder that holds it as its 'path'");
  }
  for (const std::string& file : files) {
    std::error_code error;
    if (fs::exists(folder / file, error)) continue;
    throw DataError(
        accel::text("the data set '{}' is not on this machine: there is no '{}'", name,
                    (folder / file).string()),
        accel::text("fetch it first: 'accel-run download {}', or name its folder as 'path'", name));
  }
  return folder;
}

}  // namespace accel
