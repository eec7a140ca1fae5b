// The text that a chat template writes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace accel {

/// Bytes [begin, end) of a rendered text.
struct ChatSpan {
  size_t begin = 0;
  size_t end = 0;
};

struct RenderedChat {
  std::string text;
  std::vector<ChatSpan> generations;  ///< what {% generation %} blocks wrote, in order
  /// The line of a generation block inside a macro or another block whose output is a value, so
  /// that its position in the text is unknown; 0 for none.
  int lost_generation = 0;
};

}  // namespace accel
