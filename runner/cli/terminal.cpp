#include "runner/cli/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace accel {
namespace {

volatile std::sig_atomic_t ended = 0;

void note_end(int /*signal*/) {
  ended = 1;
}

/// Only interrupts poll(): the size is asked for before each picture.
void note_window(int /*signal*/) {}

void on_signal(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

void put(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data() + at, text.size() - at);
    if (count < 0 && errno != EINTR) {
      ended = 1;  // the terminal is gone
      return;
    }
    at += static_cast<size_t>(std::max<ssize_t>(0, count));
  }
}

const char* look_code(FrameLine::Look look) {
  switch (look) {
    case FrameLine::Look::kTitle:
      return "\033[1m";
    case FrameLine::Look::kBad:
      return "\033[1;31m";
    case FrameLine::Look::kFaint:
      return "\033[2m";
    case FrameLine::Look::kPlain:
      break;
  }
  return "";
}

int number_in(const char* variable, int fallback) {
  const char* text = std::getenv(variable);
  const int number = text ? std::atoi(text) : 0;
  return number > 0 ? std::min(number, 1000) : fallback;
}

}  // namespace

FrameSize terminal_size() {
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    return {size.ws_col, size.ws_row};
  }
  return {number_in("COLUMNS", 80), number_in("LINES", 24)};
}

Terminal::Terminal() {
  ::tcgetattr(STDIN_FILENO, &before_);
  termios raw = before_;
  // Ctrl-C and Ctrl-Z arrive as keys, so that the screen is always given back.
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) on_signal(signal, &note_end);
  on_signal(SIGWINCH, &note_window);
  put("\033[?1049h\033[?25l");
}

Terminal::~Terminal() {
  put("\033[?25h\033[?1049l");
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

void Terminal::draw(const std::vector<FrameLine>& lines) const {
  // Written over the old picture, which never leaves the screen empty.
  std::string out = "\033[H";
  for (size_t i = 0; i < lines.size(); ++i) {
    out.append(i > 0 ? "\r\n" : "").append(look_code(lines[i].look)).append(lines[i].text);
    out += "\033[0m\033[K";
  }
  put(out + "\033[J");
}

std::optional<char> Terminal::wait(int milliseconds) const {
  if (ended) return kEnd;
  pollfd keys = {STDIN_FILENO, POLLIN, 0};
  const int ready = ::poll(&keys, 1, milliseconds);
  if (ended) return kEnd;
  if (ready <= 0) return std::nullopt;
  char key = 0;
  const ssize_t count = ::read(STDIN_FILENO, &key, 1);
  if (count <= 0) return kEnd;
  constexpr char kControlC = 3;
  return key == kControlC ? kEnd : key;
}

}  // namespace accel
