#include "train/loop/run_guard.h"

#include <sys/stat.h>

#include "core/base/log.h"
#include "core/base/text.h"

namespace accel {

RunGuard::RunGuard(RunLock& lock, std::string record)
    : lock_(lock), record_(std::move(record)), id_(record_id()) {}

std::optional<std::pair<dev_t, ino_t>> RunGuard::record_id() const {
  struct stat status = {};
  if (::stat(record_.c_str(), &status) != 0) return std::nullopt;
  return std::pair(status.st_dev, status.st_ino);
}

void RunGuard::check() {
  lock_.check();
  if (!id_ || record_id() == id_) return;
  id_.reset();
  warn(text("'{}' was removed or replaced during the run: it lacks the steps of this process",
            record_));
}

std::optional<LostFolderError> RunGuard::lost() try {
  lock_.check();
  return std::nullopt;
} catch (const LostFolderError& error) {
  return error;
} catch (const IoError&) {  // the folder is there
  return std::nullopt;
}

}  // namespace accel
