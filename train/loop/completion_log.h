// Completion log: the completions that a task samples, in the run folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/append_file.h"
#include "train/loop/loop_context.h"

namespace accel {

/// Appends the rows of this rank to `completions/rank_N.jsonl`, if the task has any. A resumed run
/// first removes the rows of steps after its checkpoint.
class CompletionLog {
 public:
  /// `step`: the last one of the checkpoint. The argument outlives it.
  CompletionLog(const LoopContext& context, int64_t step) : context_(context), step_(step) {}

  /// Throws IoError.
  void after_step();

 private:
  void open();

  const LoopContext& context_;
  int64_t step_;
  std::optional<AppendFile> file_;
};

}  // namespace accel
