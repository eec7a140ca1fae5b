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
    const std::string file = path_ + "/lock";
    make_tracker_folder(context, path_);
    lock_ = open_fd(file, O_RDWR | O_CREAT);
    if (!lock_) throw IoError(text("cannot open '{}': {}", file, std::strerror(errno)));
    // A lock belongs to one open file, also within a process.
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  }
}

}  // namespace accel
