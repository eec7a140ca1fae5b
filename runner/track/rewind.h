// Takes a text file of steps back to a checkpoint's step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace accel {

/// The step a line (without its newline) belongs to; null for one that cannot be read.
using StepOfLine = std::function<std::optional<int64_t>(std::string_view line)>;

/// Drops the lines of steps after `last_step`, those that cannot be read and a torn last one. The
/// file is replaced at once or left as it is. A pipe or a missing file is left alone. Throws
/// IoError.
void rewind_lines(const std::string& path, int64_t last_step, const StepOfLine& step_of);

}  // namespace accel
