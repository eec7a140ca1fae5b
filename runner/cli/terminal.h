// The terminal as a surface that is drawn on anew, given back as it was found.
#pragma once

#include <termios.h>

#include <optional>
#include <string>
#include <vector>

#include "runner/report/top_frame.h"

namespace accel {

/// Columns and rows of the terminal that standard output is; elsewhere what COLUMNS and LINES say,
/// else 80 by 24.
FrameSize terminal_size();

/// Takes the screen of standard output and the keys of standard input, both of which are terminals;
/// the destructor gives them back. A signal that ends a program ends wait() instead. One at a time.
class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void draw(const std::vector<FrameLine>& lines) const;
  /// A key, nothing after `milliseconds` or when the window changed; kEnd when it is to end.
  static constexpr char kEnd = 'q';
  std::optional<char> wait(int milliseconds) const;

 private:
  termios before_ = {};
};

}  // namespace accel
