#include "runner/track/control_box.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "core/log.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr auto kOrder = ".order";
constexpr auto kDone = ".done";
constexpr auto kRefused = ".refused";
constexpr auto kOpen = "/open";  ///< there as long as orders are taken
constexpr size_t kMostBytes = 4096;
constexpr std::chrono::milliseconds kBetweenLooks(200);

std::string box_of(const std::string& run_dir) {
  return run_dir + "/control";
}

/// Appears whole under its name. Throws IoError.
void write_private(const std::string& path, const std::string& text) {
  const std::string partial = path + ".part";
  const int file = open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool written =
      file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int reason = errno;
  if (file >= 0) close(file);
  if (written && std::rename(partial.c_str(), path.c_str()) == 0) return;
  unlink(partial.c_str());
  throw IoError("cannot write '" + path + "': " + std::strerror(written ? errno : reason));
}

/// A small file of one's own; nothing for anything else.
std::optional<std::string> read_private(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  struct stat info = {};
  std::array<char, kMostBytes + 1> bytes;
  const bool plain = fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid();
  const ssize_t count = plain ? read(file, bytes.data(), bytes.size()) : -1;
  close(file);
  if (count < 0 || count > static_cast<ssize_t>(kMostBytes)) return std::nullopt;
  return std::string(bytes.data(), static_cast<size_t>(count));
}

/// Names that sort by the time they were made.
std::string new_id() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%020lld-%d", static_cast<long long>(count),
                static_cast<int>(getpid()));
  return text.data();
}

}  // namespace

ControlBox::ControlBox(const std::string& run_dir) : folder_(box_of(run_dir)) {
  std::error_code error;
  fs::remove_all(folder_, error);
  if (mkdir(folder_.c_str(), 0700) != 0) {
    throw IoError("cannot make '" + folder_ + "': " + std::strerror(errno));
  }
  write_private(folder_ + kOpen, "");
}

ControlBox::~ControlBox() {
  unlink((folder_ + kOpen).c_str());
  try {
    while (const auto order = take()) answer(*order, false, "the run has ended");
  } catch (const std::exception& error) {
    warn(error.what());
  }
  rmdir(folder_.c_str());  // unless there are answers for those who wait for them
}

std::vector<std::string> ControlBox::orders() const {
  std::vector<std::string> ids;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.extension() == kOrder) ids.push_back(path.stem().string());
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

bool ControlBox::waiting() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ >= kBetweenLooks) {
    looked_ = now;
    seen_ = !orders().empty();
  }
  return seen_;
}

std::optional<ControlOrder> ControlBox::take() {
  for (const std::string& id : orders()) {
    const std::string path = folder_ + "/" + id + kOrder;
    const std::optional<std::string> text = read_private(path);
    if (unlink(path.c_str()) != 0) continue;  // withdrawn
    if (text) return ControlOrder{id, *text};
    answer({id, ""}, false, "the order cannot be read");
  }
  seen_ = false;
  return std::nullopt;
}

void ControlBox::answer(const ControlOrder& order, bool done, const std::string& text) const {
  try {
    write_private(folder_ + "/" + order.id + (done ? kDone : kRefused), text);
  } catch (const IoError& error) {
    warn(error.what());
  }
}

std::string post_order(const std::string& run_dir, const std::string& text) {
  const std::string folder = box_of(run_dir);
  if (!fs::exists(folder + kOpen)) {
    throw Error(ExitCode::kOther, "the run in '" + run_dir + "' takes no orders",
                "it has ended, or has not begun its first step");
  }
  const std::string id = new_id();
  write_private(folder + "/" + id + kOrder, text);
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

bool withdraw_order(const std::string& run_dir, const std::string& id) {
  return unlink((box_of(run_dir) + "/" + id + kOrder).c_str()) == 0;
}

}  // namespace accel
