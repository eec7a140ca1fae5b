#include "train/loop/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/base/log.h"

namespace accel {
namespace {

ProgressBar* shown = nullptr;

constexpr int64_t kWidth = 24;

}  // namespace

std::string clock_text(double seconds) {
  const auto total = static_cast<long>(std::max(0.0, seconds));
  std::array<char, 32> text;
  if (total >= 3600) {
    std::snprintf(text.data(), text.size(), "%ld:%02ld:%02ld", total / 3600, total / 60 % 60,
                  total % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%ld:%02ld", total / 60, total % 60);
  }
  return text.data();
}

ProgressBar::ProgressBar(int64_t total_steps)
    : total_(total_steps), terminal_(isatty(STDERR_FILENO) == 1) {
  if (!terminal_) return;
  shown = this;
  set_line_hook(&ProgressBar::redraw);
}

ProgressBar::~ProgressBar() {
  if (!terminal_) return;
  redraw(false);
  set_line_hook(nullptr);
  shown = nullptr;
}

void ProgressBar::redraw(bool draw) {
  std::fprintf(stderr, "\r\033[K%s", draw && shown ? shown->text_.c_str() : "");
  std::fflush(stderr);
}

void ProgressBar::update(int64_t step, double loss, double seconds_per_step) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  std::array<char, 160> text;
  if (total_ > 0) {
    const int64_t filled = std::min(kWidth, kWidth * step / total_);
    const std::string bar = std::string(static_cast<size_t>(filled), '#') +
                            std::string(static_cast<size_t>(kWidth - filled), '.');
    const double left = seconds_per_step * static_cast<double>(total_ - step);
    std::snprintf(text.data(), text.size(), "[%s] %ld/%ld  loss %.4g  %s left", bar.c_str(),
                  static_cast<long>(step), static_cast<long>(total_), loss,
                  clock_text(left).c_str());
  } else {
    std::snprintf(text.data(), text.size(), "step %ld  loss %.4g", static_cast<long>(step), loss);
  }
  text_ = text.data();
  redraw(true);
}

}  // namespace accel
