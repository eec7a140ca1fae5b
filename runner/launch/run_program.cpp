#include "runner/launch/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <sstream>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/owned_fd.h"
#include "core/base/text.h"

extern char** environ;

namespace accel {
namespace {

using Clock = std::chrono::steady_clock;

struct ReadPipe {
  ReadPipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      throw Error(ExitCode::kOther, text("cannot make a pipe: {}", std::strerror(errno)));
    }
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
  OwnedFd read, write;
};

/// Appends available output; closes the pipe at its end.
void take(OwnedFd& pipe, std::string& to) {
  char buffer[4096];
  const ssize_t count = ::read(pipe.get(), buffer, sizeof buffer);
  if (count > 0) to.append(buffer, static_cast<size_t>(count));
  if (count == 0 || (count < 0 && errno != EINTR)) pipe.reset();
}

/// Reads both pipes to their ends. False after `seconds`.
bool read_all(ReadPipe& out, ReadPipe& err, ProgramEnd& end, int seconds) {
  const auto limit = Clock::now() + std::chrono::seconds(seconds);
  while (out.read || err.read) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now());
    if (left.count() <= 0) return false;
    pollfd watched[] = {{out.read.get(), POLLIN, 0}, {err.read.get(), POLLIN, 0}};
    ::poll(watched, 2, static_cast<int>(left.count()));
    if (watched[0].revents != 0) take(out.read, end.output);
    if (watched[1].revents != 0) take(err.read, end.errors);
  }
  return true;
}

}  // namespace

bool has_program(const std::string& name) {
  std::istringstream folders(environment_variable("PATH").value_or(""));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty() && ::access((folder + "/" + name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

ProgramEnd run_program(const std::vector<std::string>& words, int seconds) {
  ReadPipe out, err;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write.get(), STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    throw Error(ExitCode::kOther,
                text("cannot start '{}': {}", words.front(), std::strerror(failed)));
  }
  out.write.reset();
  err.write.reset();
  ProgramEnd end;
  if (!read_all(out, err, end, seconds)) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

}  // namespace accel
