#include "track/tracker_folder.h"

#include <filesystem>

#include "core/base/files.h"
#include "core/base/folders.h"

namespace accel {

void make_tracker_folder(const TrackerContext& context, const std::string& folder) {
  namespace fs = std::filesystem;
  const fs::path within = fs::absolute(folder).lexically_normal().lexically_relative(
      fs::absolute(context.run_dir).lexically_normal());
  if (!within.empty() && *within.begin() != "..") {
    make_folder_within(context.run_dir, folder);
  } else {
    make_folder_of(folder + "/.");
  }
}

}  // namespace accel
