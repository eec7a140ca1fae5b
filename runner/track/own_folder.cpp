#include "runner/track/own_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/error.h"

namespace accel {

OwnFolder::OwnFolder(const std::string& folder) {
  constexpr mode_t kReadableByAll = 0666;  // less the umask
  for (int number = 1;; ++number) {
    path_ = number == 1 ? folder : folder + '-' + std::to_string(number);
    std::error_code error;
    std::filesystem::create_directories(path_, error);
    const std::string file = path_ + "/lock";
    lock_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kReadableByAll);
    if (lock_ < 0) throw IoError("cannot open '" + file + "': " + std::strerror(errno));
    // Of two openings of one file, also in one process, only one has the lock.
    if (::flock(lock_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    ::close(lock_);
  }
}

OwnFolder::~OwnFolder() {
  ::close(lock_);
}

}  // namespace accel
