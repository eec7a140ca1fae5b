#include "core/base/command_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/base/owned_fd.h"

namespace accel {
namespace {

constexpr size_t kMostOutput = 64 << 10;

/// Reads the pipe until its end or the time limit; false at the limit.
bool read_within(int fd, std::chrono::milliseconds limit, std::string& output) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (std::array<char, 4096> buffer; output.size() < kMostOutput;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd ready = {fd, POLLIN, 0};
    const int events = ::poll(&ready, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (events < 0 && errno == EINTR) continue;
    if (events <= 0) return false;
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    output.append(buffer.data(), static_cast<size_t>(count));
  }
  return true;
}

}  // namespace

std::optional<std::string> command_output(const std::vector<std::string>& argv,
                                          std::chrono::milliseconds limit) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  OwnedFd read_end(ends[0]), write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return std::nullopt;
  write_end.reset();
  std::string output;
  const bool whole = read_within(read_end.get(), limit, output);
  read_end.reset();
  if (!whole) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  const bool succeeded = whole && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return succeeded ? std::optional(output) : std::nullopt;
}

}  // namespace accel
