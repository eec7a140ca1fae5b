#include "track/exclusive_folder.h"

#include <sys/file.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/text.h"
#include "track/tracker_folder.h"

namespace accel {

ExclusiveFolder::ExclusiveFolder(const TrackerContext& context, const std::string& folder) {
  for (int number = 1;; ++number) {
    path_ = number == 1 ? folder : text("{}-{}", folder, number);
    make_tracker_folder(context, path_);
    if (lock()) return;
  }
}

ExclusiveFolder::ExclusiveFolder(const std::string& folder) : path_(folder) {
  if (lock()) return;
  throw IoError(text("'{}' is in use by a run or by another flush", folder),
                "wait until it has ended: a run sends its entries itself");
}

/// False if the folder is in use.
bool ExclusiveFolder::lock() {
  const std::string file = path_ + "/lock";
  lock_ = open_fd(file, O_RDWR | O_CREAT);
  if (!lock_) throw IoError(text("cannot open '{}': {}", file, std::strerror(errno)));
  // A lock belongs to one open file, also within a process.
  return ::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

}  // namespace accel
