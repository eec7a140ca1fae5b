// In what the records of two runs differ.
#pragma once

#include <optional>
#include <string>

namespace accel {

/// The first quantity in which two records (metrics.jsonl) differ, what a step was made of before
/// what came of it: "step 12: loss is 0.5 and 0.25". Nothing when every step and evaluation is
/// equal to the last bit; events and speeds are not compared. Throws IoError for a file that cannot
/// be read; lines that a crash tore are passed over.
std::optional<std::string> first_difference(const std::string& record_a,
                                            const std::string& record_b);

}  // namespace accel
