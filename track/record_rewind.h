// The run record of a resumed run: truncated to the checkpoint and compared with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "formats/checksum.h"

namespace accel {

/// The start of a record, as a checkpoint stores it.
struct RecordMark {
  uint64_t bytes = 0;
  uint64_t checksum = 0;  ///< XXH3, 64 bits

  bool operator==(const RecordMark&) const = default;
};

struct RewoundRecord {
  uint64_t bytes = 0;   ///< of the lines kept
  Checksum checksum{};  ///< of the lines kept
  /// What is missing or damaged up to the checkpoint; empty when nothing is.
  std::string problem{};
};

/// Drops lines of steps after `first_step`, damaged lines and a truncated last line; at step 0 all
/// lines. `mark` is the checkpoint's; checkpoints of 0.1.0 and of another run have none.
/// `eval_pending`: this process evaluates at `first_step`, as the previous one may have done before
/// it was killed; its evaluation is dropped too. Throws IoError.
RewoundRecord rewind_record(const std::string& path, int64_t first_step,
                            const std::optional<RecordMark>& mark, bool eval_pending = false);

}  // namespace accel
