#include "runner/cli/end_rank.h"

#include <unistd.h>

#include <chrono>
#include <exception>
#include <iostream>

#include "parallel/call_within.h"
#include "runner/cli/error_text.h"

namespace accel {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(2000);

}  // namespace

void report_to_launcher(BoardWriter& board, ExitCode code, const std::string& text, bool json) {
  const std::string fitting = json ? whole_lines(text, BoardWriter::kLongestError) : text;
  board.fail(static_cast<int>(code), fitting.c_str());
}

void end_rank(BoardWriter& board, const Error& error, bool json) {
  const std::string text = error_text(error, json);
  if (board.has_launcher()) report_to_launcher(board, error.code(), text, json);
  try {
    call_within(kPatience, [text, prints = !board.has_launcher()] {
      if (prints) print_error(text);
      std::cout.flush();
      return true;
    });
  } catch (const std::exception&) {
    // No thread is left, or the terminal is gone: the exit code remains.
  }
  ::_exit(static_cast<int>(error.code()));
}

}  // namespace accel
