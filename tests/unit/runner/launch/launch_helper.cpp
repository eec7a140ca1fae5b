// For the launcher's tests: a process that launches ranks, and the ranks, which follow a script.
//
//   launch_helper launch ranks=2 timeout=5 ... -- WORD...
//
// A word "1:kill=9" is for rank 1, one "kill=9" for all; "1@0:kill=9" only before the first
// restart.
#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <thread>

#include "core/base/error.h"
#include "parallel/rendezvous/launcher_channel.h"
#include "parallel/rendezvous/rank_info.h"
#include "runner/launch/launcher.h"
#include "runner/launch/rank_process.h"
#include "runner/launch/status_board.h"

namespace accel {
namespace {

int64_t number(const std::string& text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// "a" and "b" of "a=b".
std::pair<std::string, std::string> halves(const std::string& text, char separator) {
  const size_t at = text.find(separator);
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + 1)};
}

void sleep_ms(int64_t milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

[[noreturn]] void sleep_for_ever() {
  for (;;) sleep_ms(60'000);
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0) std::exit(99);
    text.remove_prefix(static_cast<size_t>(count));
  }
}

void flood(int64_t bytes) {
  const std::string line = std::string(99, 'x') + "\n";
  std::string block;
  while (block.size() < 60'000) block += line;
  for (int64_t written = 0; written < bytes; written += static_cast<int64_t>(block.size())) {
    write_all(STDERR_FILENO, block);
  }
}

/// Descriptors beyond the standard ones, but for the one that reads the folder.
int64_t count_descriptors() {
  int64_t count = 0;
  DIR* dir = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(dir)) {
    const int64_t fd = number(entry->d_name);
    if (fd > STDERR_FILENO && fd != ::dirfd(dir)) ++count;
  }
  ::closedir(dir);
  return count;
}

void take_signals(void (*handler)(int)) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) std::signal(signal, handler);
  const sigset_t all = user_signals();
  ::pthread_sigmask(SIG_UNBLOCK, &all, nullptr);
}

class ScriptedRank {
 public:
  ScriptedRank()
      : board_(BoardWriter::open(&environment_variable)),
        link_(find_launcher_channel(&environment_variable).value()),
        place_(find_rank(&environment_variable).value()),
        guard_(std::in_place, link_.lifeline_fd.value()) {}

  void follow(const std::string& word) {
    const bool addressed = word.find_first_not_of("0123456789@") == word.find(':');
    const auto [who, action] = addressed ? halves(word, ':') : std::pair(std::string(), word);
    const auto [rank, generation] = halves(who, '@');
    if (!rank.empty() && number(rank) != place_.rank) return;
    if (!generation.empty() && number(generation) != link_.generation) return;
    const auto [name, value] = halves(action, '=');
    if (!report(name, value) && !act(name, value)) std::exit(98);
  }

 private:
  bool report(const std::string& name, const std::string& value) {
    const auto [first, second] = halves(value, '/');
    if (name == "step") {
      board_.step(number(value));
    } else if (name == "phase") {
      board_.phase(value.c_str());
    } else if (name == "enter") {
      board_.enter(second.c_str(), number(first));
    } else if (name == "leave") {
      board_.leave();
    } else if (name == "fail") {
      board_.fail(static_cast<int>(number(first)), second.c_str());
      ::_exit(static_cast<int>(number(first)));
    } else if (name == "place") {
      write_all(STDERR_FILENO, describe());
    } else {
      return false;
    }
    return true;
  }

  bool act(const std::string& name, const std::string& value) {
    if (name == "sleep") {
      sleep_ms(number(value));
    } else if (name == "exit") {
      ::_exit(static_cast<int>(number(value)));
    } else if (name == "kill") {
      std::signal(static_cast<int>(number(value)), SIG_DFL);  // sanitizers have handlers
      std::raise(static_cast<int>(number(value)));
    } else if (name == "wait") {
      sleep_for_ever();
    } else if (name == "print") {
      write_all(STDERR_FILENO, value + "\n");
    } else if (name == "say") {
      write_all(STDOUT_FILENO, value + "\n");
    } else if (name == "flood") {
      flood(number(value));
    } else if (name == "unguarded") {
      guard_.reset();
    } else if (name == "mkdir") {
      std::filesystem::create_directory(value);
    } else if (name == "fork") {
      if (::fork() == 0) sleep_for_ever();
    } else if (name == "save") {  // on a signal, as a rank does that saves and stops
      take_signals([](int) { ::_exit(75); });
    } else if (name == "deaf") {
      take_signals(SIG_IGN);
    } else {
      return false;
    }
    return true;
  }

  std::string describe() const {
    const char* listens = "no store";
    int accepts = 0;
    socklen_t size = sizeof accepts;
    if (link_.store_fd &&
        ::getsockopt(*link_.store_fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) == 0 && accepts) {
      listens = "listens";
    }
    return std::to_string(place_.rank) + "/" + std::to_string(place_.world) + " " +
           std::to_string(place_.local_rank) + "/" + std::to_string(place_.local_world) + " " +
           place_.main_address + " " + place_.launcher + ", " + listens + ", generation " +
           std::to_string(link_.generation) + ", token of " + std::to_string(link_.token.size()) +
           ", open " + std::to_string(count_descriptors()) +
           (::getpgrp() == ::getpid() ? ", leads its group" : "") + ", port " +
           std::to_string(place_.main_port) + "\n";
  }

  BoardWriter board_;
  LauncherChannel link_;
  RankInfo place_;
  std::optional<OrphanGuard> guard_;
};

int launch_ranks(const std::vector<std::string>& words) {
  LaunchRequest request;
  request.argv = {"launch_helper", "rank"};
  std::map<std::string, int64_t*> numbers = {
      {"ranks", &request.local_ranks},       {"machines", &request.num_machines},
      {"machine", &request.machine_rank},    {"restarts", &request.max_restarts},
      {"timeout", &request.timeout_seconds}, {"join", &request.join_timeout_seconds}};
  std::map<std::string, std::string*> texts = {{"ip", &request.main_process_ip},
                                               {"logs", &request.log_dir},
                                               {"program", &request.program},
                                               {"go_on", &request.resume_command}};
  size_t i = 0;
  for (; i < words.size() && words[i] != "--"; ++i) {
    const auto [name, value] = halves(words[i], '=');
    if (name == "port") request.main_process_port = number(value);
    if (numbers.contains(name)) *numbers[name] = number(value);
    if (texts.contains(name)) *texts[name] = value;
  }
  for (++i; i < words.size(); ++i) request.argv.push_back(words[i]);
  try {
    return launch(request);
  } catch (const Error& error) {
    std::cerr << "error: " << error.what() << "\n  hint: " << error.hint() << '\n';
    return static_cast<int>(error.code());
  }
}

}  // namespace
}  // namespace accel

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 2, argv + argc);
  if (std::string(argv[1]) == "launch") return accel::launch_ranks(words);
  accel::ScriptedRank rank;
  for (const std::string& word : words) rank.follow(word);
  return 0;
}
