#include "runner/startup/process_setup.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string_view>
#include <typeinfo>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/owned_fd.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr std::string_view kOutOfMemory =
    "error: out of memory\n  hint: raise 'ulimit -v' and the memory limit of the job\n";

std::terminate_handler other_terminate = nullptr;
bool static_destructors_run = false;

void on_terminate() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type && (*type == typeid(std::bad_alloc) || *type == typeid(std::bad_array_new_length))) {
    [[maybe_unused]] const ssize_t count =
        ::write(STDERR_FILENO, kOutOfMemory.data(), kOutOfMemory.size());
    ::_exit(static_cast<int>(ExitCode::kMemory));
  }
  if (other_terminate) other_terminate();
  std::abort();
}

/// Whether standard output is a pipe or socket without a reader.
bool reader_is_gone() {
  pollfd output = {STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace

void report_uncaught_bad_alloc() {
  other_terminate = std::set_terminate(&on_terminate);
}

void prepare_process() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is this one; child processes need it too.
    if (OwnedFd null = open_fd("/dev/null", O_RDWR)) ::fcntl(null.release(), F_SETFD, 0);
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

void require_working_folder() {
  if (char* folder = ::getcwd(nullptr, 0)) return std::free(folder);
  throw IoError(text("the working folder is unusable: {}", std::strerror(errno)),
                "change to a folder that exists, such as: cd ~");
}

void finish_output() {
  std::cout.flush();
  std::fflush(stdout);
  if (std::ferror(stdout) == 0 || reader_is_gone()) return;
  // The failed write may be an earlier one, whose errno is gone: another one fails alike.
  const int error = ::write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO;
  if (error == EPIPE) return;
  const char* reason = std::strerror(error);
  throw IoError(text("cannot write the standard output: {}", reason), full_disk_hint(error));
}

void keep_static_destructors() {
  static_destructors_run = true;
}

void exit_without_static_destructors(int code) {
  if (static_destructors_run || environment_variable("LD_PRELOAD")) return;
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace accel
