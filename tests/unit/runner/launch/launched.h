// Runs launch_helper and sees what it prints, how it ends and what it leaves behind.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/formats/temp_folder.h"

namespace accel {

inline std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), {});
}

/// The program that plays launcher and ranks: it lies beside the test.
inline std::string launch_helper() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "launch_helper";
}

class Launched {
 public:
  /// The words after "launch"; `output` is its standard error, or else a separate file.
  explicit Launched(std::vector<std::string> words, int standard_error = -1)
      : mark_("ACCEL_TEST_MARK=" + folder_.path()), start_(std::chrono::steady_clock::now()) {
    words.insert(words.begin(), {launch_helper(), "launch"});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    if (standard_error >= 0) dup2(standard_error, STDERR_FILENO);
    close_range(STDERR_FILENO + 1, ~0U, 0);  // what a test has open is no leak of the launcher
    putenv(mark_.data());
    redirect("out", STDOUT_FILENO);
    if (standard_error < 0) redirect("err", STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(97);
  }
  ~Launched() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    wait();
  }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  pid_t pid() const { return pid_; }
  std::string out() const { return text_of(folder_.path("out")); }
  std::string err() const { return text_of(folder_.path("err")); }

  /// The exit code, or 1000 and the signal.
  int wait() {
    int status = 0;
    rusage usage = {};
    wait4(pid_, &status, 0, &usage);
    max_kib_ = usage.ru_maxrss;
    pid_ = -1;
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  /// From the start to the end that wait() saw.
  double seconds() const { return seconds_; }
  /// The most memory that one of its processes had.
  int64_t max_kib() const { return max_kib_; }

  /// Processes that this one started, however indirectly, itself included.
  std::vector<pid_t> processes() const {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string variables = text_of(entry.path() / "environ");
      if (variables.find(mark_) != std::string::npos) found.push_back(std::stoi(name));
    }
    return found;
  }

  /// Waits at most two minutes for `count` processes; returns their number.
  size_t wait_for_processes(size_t count) const {
    size_t found = 0;
    for (int i = 0; i < 6000; ++i) {
      found = processes().size();
      if (found == count) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return found;
  }

  /// Waits until standard error has the text, at most two minutes.
  bool wait_for(const std::string& text) const {
    for (int i = 0; i < 6000; ++i) {
      if (err().find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

 private:
  void redirect(const char* name, int fd) const {
    const int file = open(folder_.path(name).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
    dup2(file, fd);
    close(file);
  }

  TempFolder folder_;
  std::string mark_;
  std::chrono::steady_clock::time_point start_;
  pid_t pid_ = -1;
  double seconds_ = 0;
  int64_t max_kib_ = 0;
};

}  // namespace accel
