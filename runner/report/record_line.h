// One line of metrics.jsonl, as a reader sees it that trusts nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tracker.h"

namespace accel {

/// What RunRecord writes, one kind at a time; what a kind lacks is left at its default.
struct RecordLine {
  enum class Kind { kOther, kStep, kEval, kLog, kUse, kPlan, kActual, kAbout, kEvent };

  Kind kind = Kind::kOther;
  int64_t step = -1;
  double epoch = 0;
  double samples = 0;
  double loss = 0;  ///< nan for every value that is not finite
  std::optional<double> grad_norm = {};
  double lr = 0;
  bool skipped = false;
  std::vector<Measurement> values = {};                         ///< eval, log, use, plan, actual
  std::vector<std::pair<std::string, std::string>> texts = {};  ///< about
  std::string event = {}, text = {}, time = {};
};

/// Nothing for a line that a crash tore, or that is no JSON object with a step.
std::optional<RecordLine> read_record_line(std::string_view line);

}  // namespace accel
