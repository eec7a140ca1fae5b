#include "runner/startup/lazy_torch.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "core/base/build_info.h"
#include "core/base/error.h"
#include "core/base/owned_fd.h"
#include "core/base/text.h"
#include "parallel/rendezvous/rank_info.h"
#include "runner/startup/torch_folder.h"

/// Defined only by the stub libraries.
extern "C" __attribute__((weak)) const char accel_torch_stub;

namespace accel {
namespace {

constexpr const char* kSearchPath = "LD_LIBRARY_PATH";
/// The user's search path, between the two executions.
constexpr const char* kUsersSearchPath = "ACCEL_RUN_LD_LIBRARY_PATH";

/// The installation: the folder above lib/accel-run-stubs.
std::filesystem::path prefix_of_stub() {
  Dl_info info = {};
  if (dladdr(&accel_torch_stub, &info) == 0 || !info.dli_fname) return {};
  return std::filesystem::weakly_canonical(info.dli_fname)
      .parent_path()
      .parent_path()
      .parent_path();
}

/// Child processes must not inherit the search path of libtorch.
void restore_search_path() {
  const std::optional<std::string> users = environment_variable(kUsersSearchPath);
  if (!users) return;
  if (users->empty()) {
    unsetenv(kSearchPath);
  } else {
    setenv(kSearchPath, users->c_str(), 1);
  }
  unsetenv(kUsersSearchPath);
}

/// Whether the loader can map all libraries in this environment, tried in a child process that runs
/// none of their code; the loader's first line of output if not.
std::string load_failure(const std::string& program) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const OwnedFd read_end(ends[0]);
  OwnedFd write_end(ends[1]);
  std::vector<char*> variables;
  std::string trace = "LD_TRACE_LOADED_OBJECTS=1";
  for (char** each = environ; *each; ++each) variables.push_back(*each);
  variables.insert(variables.end(), {trace.data(), nullptr});
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  std::array<char*, 2> argv = {const_cast<char*>(program.c_str()), nullptr};
  pid_t child = -1;
  const int failed =
      ::posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return std::strerror(failed);
  write_end.reset();
  std::array<char, 512> printed = {};
  const ssize_t count = ::read(read_end.get(), printed.data(), printed.size() - 1);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const std::string text(printed.data(), count > 0 ? static_cast<size_t>(count) : 0);
  const std::string line = text.substr(0, text.find('\n'));
  const size_t cause = line.find("libraries: ");
  return cause == std::string::npos ? line : line.substr(cause + std::strlen("libraries: "));
}

/// After execv() the loader would report this with the exit code 127 of a missing command.
void check_address_space(const std::string& program) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const std::string failure = load_failure(program);
  if (failure.empty()) return;
  restore_search_path();
  throw Error(
      ExitCode::kMemory,
      text("libtorch does not fit into the {} bytes of address space: {}", limit.rlim_cur, failure),
      "raise 'ulimit -v', or set it to unlimited");
}

/// Whether weights are streamed from the disk, by threads that need the cores on which OpenMP's
/// would spin.
bool streams_weights(const std::vector<std::string>& argv) {
  return std::any_of(argv.begin(), argv.end(), [](const std::string& word) {
    return word.starts_with("--max-memory") || word.starts_with("--device-map");
  });
}

}  // namespace

bool torch_is_there() {
  if (&accel_torch_stub != nullptr) return false;
  restore_search_path();
  return true;
}

void release_torch_pages(LibraryPages pages) {
  if (&accel_torch_stub == nullptr) release_library_pages(pages);
}

void require_torch(const std::vector<std::string>& argv) {
  const bool re_executed = environment_variable(kUsersSearchPath).has_value();
  if (torch_is_there()) return;
  const std::filesystem::path prefix = prefix_of_stub();
  const std::string version(build_info().torch);
  const std::optional<std::string> found = find_torch_folder(prefix, version, environment_variable);
  if (re_executed || !found) {
    throw Error(
        ExitCode::kOther,
        text("libtorch is not in '{}'", found.value_or((prefix / "lib/accel-run").string())),
        text("reinstall accel-run with its 'lib' folder; beside the wheel: pip install "
             "'torch=={}.*'",
             minor_version(version)));
  }
  const std::string& folder = *found;
  const std::string users = environment_variable(kSearchPath).value_or("");
  setenv(kUsersSearchPath, users.c_str(), 1);
  // Callers report errors of collectives; the status board replaces the flight recorder.
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", 0);
  setenv("TORCH_FR_BUFFER_SIZE", "0", 0);
  setenv("KINETO_LOG_LEVEL", "5", 0);  // silences errors about missing GPUs
  if (streams_weights(argv)) setenv("OMP_WAIT_POLICY", "PASSIVE", 0);
  setenv(kSearchPath, (users.empty() ? folder : folder + ":" + users).c_str(), 1);

  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  // The real path: `ps` and `top` would show /proc/self/exe.
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  check_address_space(program);
  execv(program.c_str(), words.data());
  throw Error(ExitCode::kOther, text("cannot start '{}': {}", program, std::strerror(errno)));
}

}  // namespace accel
