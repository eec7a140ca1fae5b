// Whether a run is alive, told from its folder without touching it.
#pragma once

#include <string>

namespace accel {

/// kSilent: the process is gone and left no word of how it ended, as after a kill. kElsewhere: its
/// process is on another machine, or in another container, where it cannot be seen.
enum class RunPulse { kNobody, kAlive, kSilent, kElsewhere };

/// Reads `run_dir`/run.lock; takes no lock, so that no run ever finds its folder in use by a
/// reader. `holder` becomes what the holder wrote of itself: "process 12 on host 'a'".
RunPulse run_pulse(const std::string& run_dir, std::string& holder);

}  // namespace accel
