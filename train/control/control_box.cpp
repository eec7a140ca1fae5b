#include "train/control/control_box.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/owned_fd.h"
#include "core/base/text.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr auto kCommand = ".command";
constexpr auto kDone = ".done";
constexpr auto kRefused = ".refused";
constexpr auto kOpen = "/open";  ///< exists while commands are accepted
constexpr size_t kMostBytes = 4096;
constexpr std::chrono::milliseconds kBetweenLooks(200);

std::string box_of(const std::string& run_dir) {
  return run_dir + "/control";
}

/// The content of a small regular file of this user; else nullopt.
std::optional<std::string> read_private(const std::string& path) {
  const OwnedFd file = open_fd(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file) return std::nullopt;
  struct stat info = {};
  std::array<char, kMostBytes + 1> bytes;
  const bool plain =
      fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid();
  const ssize_t count = plain ? read(file.get(), bytes.data(), bytes.size()) : -1;
  if (count < 0 || count > static_cast<ssize_t>(kMostBytes)) return std::nullopt;
  return std::string(bytes.data(), static_cast<size_t>(count));
}

/// Tells a file from one that is created later at its path, also with the same inode. 0: none.
ino_t stamp_of(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return 0;
  return info.st_ino ^
         static_cast<ino_t>(info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec);
}

/// Ids that sort by time.
std::string new_id() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%020lld-%d", static_cast<long long>(count),
                static_cast<int>(getpid()));
  return text.data();
}

std::string user_name(uid_t id) {
  const passwd* user = getpwuid(id);
  return user ? text("user '{}'", user->pw_name) : text("user {}", id);
}

/// Throws where commands would be another user's, which the run cannot read.
void require_own(const std::string& folder, const std::string& run_dir) {
  struct stat info = {};
  if (stat(folder.c_str(), &info) != 0 || info.st_uid == geteuid()) return;
  throw IoError(text("the run in '{}' belongs to {} and takes no commands of {}", run_dir,
                     user_name(info.st_uid), user_name(geteuid())),
                "give the command as the user who started the run");
}

/// Readable by the run's user alone, as its folder is. The other side may have taken it by then.
void write_private_file(const std::string& path, const std::string& text) {
  write_file_atomically(path, text);
  std::error_code taken;
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write, taken);
}

}  // namespace

ControlBox::ControlBox(const std::string& run_dir) : folder_(box_of(run_dir)) {
  std::error_code error;
  fs::remove_all(folder_, error);
  if (mkdir(folder_.c_str(), 0700) != 0) {
    throw IoError(text("cannot create '{}': {}", folder_, std::strerror(errno)));
  }
  write_file_atomically(folder_ + kOpen, "");
  open_ = stamp_of(folder_ + kOpen);
}

ControlBox::~ControlBox() {
  if (stamp_of(folder_ + kOpen) != open_) return;  // the folder is another process's
  unlink((folder_ + kOpen).c_str());
  try {
    while (const auto command = take()) answer(*command, false, "the run has ended");
  } catch (const std::exception& error) {
    warn(error.what());
  }
  rmdir(folder_.c_str());  // fails while answers are unread
}

std::vector<std::string> ControlBox::commands() const {
  std::vector<std::string> ids;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.extension() == kCommand) ids.push_back(path.stem().string());
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

bool ControlBox::waiting() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ >= kBetweenLooks) {
    looked_ = now;
    seen_ = !commands().empty();
  }
  return seen_;
}

std::optional<ControlCommand> ControlBox::take() {
  for (const std::string& id : commands()) {
    const std::string path = folder_ + "/" + id + kCommand;
    const std::optional<std::string> text = read_private(path);
    if (unlink(path.c_str()) != 0) continue;  // withdrawn
    if (text) return ControlCommand{id, *text};
    answer({id, ""}, false, "the command is unreadable");
  }
  seen_ = false;
  return std::nullopt;
}

void ControlBox::answer(const ControlCommand& command, bool done, const std::string& text) const {
  try {
    write_private_file(folder_ + "/" + command.id + (done ? kDone : kRefused), text);
  } catch (const IoError& error) {
    warn(error.what());
  }
}

std::string post_command(const std::string& run_dir, const std::string& text) {
  const std::string folder = box_of(run_dir);
  require_own(folder, run_dir);
  std::error_code error;
  if (!fs::exists(folder + kOpen, error)) {
    throw Error(ExitCode::kOther, accel::text("the run in '{}' accepts no commands", run_dir),
                "it has ended or has not reached its first step");
  }
  const std::string id = new_id();
  write_private_file(folder + "/" + id + kCommand, text);
  return id;
}

std::optional<ControlAnswer> take_answer(const std::string& run_dir, const std::string& id) {
  for (const bool done : {true, false}) {
    const std::string path = box_of(run_dir) + "/" + id + (done ? kDone : kRefused);
    const std::optional<std::string> text = read_private(path);
    if (!text) continue;
    unlink(path.c_str());
    return ControlAnswer{done, *text};
  }
  return std::nullopt;
}

bool withdraw_command(const std::string& run_dir, const std::string& id) {
  return unlink((box_of(run_dir) + "/" + id + kCommand).c_str()) == 0;
}

}  // namespace accel
