// A folder that one tracker of one process uses.
#pragma once

#include <string>

#include "core/api/tracker.h"
#include "core/base/owned_fd.h"

namespace accel {

/// `folder`, or the first of `folder`-2, `folder`-3, ... that is not locked. Trackers that are
/// created in the same order get the same folders on resume.
class ExclusiveFolder {
 public:
  /// Creates the folder: make_tracker_folder(). Throws IoError.
  ExclusiveFolder(const TrackerContext& context, const std::string& folder);
  /// An existing folder. Throws IoError, also for one that is locked.
  explicit ExclusiveFolder(const std::string& folder);

  const std::string& path() const { return path_; }

 private:
  bool lock();

  std::string path_;
  OwnedFd lock_;
};

}  // namespace accel
