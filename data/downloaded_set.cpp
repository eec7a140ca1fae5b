#include "data/downloaded_set.h"

#include "core/error.h"
#include "data/token_cache.h"

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
        "the data set '" + name + "' has no place: neither XDG_CACHE_HOME nor HOME is set",
        "name the folder that holds it as its 'path'");
  }
  for (const std::string& file : files) {
    std::error_code error;
    if (fs::exists(folder / file, error)) continue;
    throw DataError(
        "the data set '" + name + "' is not on this machine: there is no '" +
            (folder / file).string() + "'",
        "fetch it first: 'accel-run download " + name + "', or name its folder as 'path'");
  }
  return folder;
}

}  // namespace accel
