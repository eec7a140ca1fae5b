#include "track/record_rewind.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "core/base/error.h"
#include "core/base/text.h"
#include "track/resumable_file.h"

namespace accel {
namespace {

constexpr std::string_view kStepStart = "{\"step\":";

std::optional<int64_t> step_of_json_line(std::string_view line) {
  if (!line.starts_with(kStepStart) || !line.ends_with('}')) return std::nullopt;
  int64_t step = 0;
  const char* digits = line.data() + kStepStart.size();
  const auto [end, error] = std::from_chars(digits, line.data() + line.size(), step);
  if (error != std::errc() || (*end != ',' && *end != '}')) return std::nullopt;
  return step;
}

/// Whether a line is of an evaluation: its results, or the use of data that is logged with them.
bool is_of_evaluation(std::string_view line) {
  const std::string_view rest = line.substr(std::min(line.find(','), line.size()));
  return rest.starts_with(",\"eval\":") || rest.starts_with(",\"log\":{\"data/");
}

/// The step of a line to keep up to `first_step`: none for an evaluation that is made again.
std::optional<int64_t> step_to_keep(std::string_view line, int64_t first_step, bool eval_pending) {
  const std::optional<int64_t> step = step_of_json_line(line);
  const bool again = eval_pending && step == first_step && is_of_evaluation(line);
  return again ? std::nullopt : step;
}

/// Reads a record line by line.
class RecordScan {
 public:
  RecordScan(int64_t first_step, const std::optional<RecordMark>& mark, bool eval_pending)
      : first_step_(first_step), mark_(mark), eval_pending_(eval_pending) {}

  /// A line with its newline; `torn`: without.
  void add(std::string_view line, bool torn) {
    const std::string_view content = line.substr(0, line.size() - 1);
    const std::optional<int64_t> step = torn ? std::nullopt : step_of_json_line(content);
    damaged_ += !step && !torn;
    if (!step || *step > first_step_ || !step_to_keep(content, first_step_, eval_pending_)) {
      drops_ = true;
      return;
    }
    out_.checksum.update(as_bytes(line));
    out_.bytes += line.size();
    if (line.find("\"loss_bits\"") != line.npos) add_step(*step);
    if (mark_ && out_.bytes == mark_->bytes) intact_ = out_.checksum.value() == mark_->checksum;
  }

  bool drops() const { return drops_; }

  RewoundRecord take(const std::string& path) {
    if (mark_ && !intact_ && mark_->bytes > 0) {
      out_.problem = text("the record '{}' does not match the checkpoint at step {}: {}", path,
                          first_step_, faults());
    } else if (!mark_ && damaged_ > 0) {
      out_.problem = text("the record '{}' has {}", path, faults());
    }
    return std::move(out_);
  }

 private:
  void add_step(int64_t step) {
    if (last_step_ >= 0) missing_ += std::max<int64_t>(0, step - last_step_ - 1);
    last_step_ = step;
  }

  /// "2 damaged lines were dropped, 3 steps are missing"
  std::string faults() const {
    // A run that started from another run's checkpoint records no earlier steps.
    const int64_t missing = missing_ + (last_step_ >= 0 ? first_step_ - last_step_ : first_step_);
    std::string out;
    if (damaged_ > 0) out = counted(damaged_, "damaged line");
    if (mark_ && missing > 0) out += (out.empty() ? "" : ", ") + counted(missing, "missing step");
    return out.empty() ? "a value was changed" : out + "; the rest is kept";
  }

  static std::string counted(int64_t count, const std::string& noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
  }

  int64_t first_step_;
  const std::optional<RecordMark>& mark_;
  bool eval_pending_;
  RewoundRecord out_;
  bool intact_ = false;
  bool drops_ = false;
  int64_t damaged_ = 0;
  int64_t missing_ = 0;
  int64_t last_step_ = -1;
};

}  // namespace

RewoundRecord rewind_record(const std::string& path, int64_t first_step,
                            const std::optional<RecordMark>& mark, bool eval_pending) {
  constexpr int64_t kBeforeAnything = -1;
  std::error_code none;
  const bool is_file = std::filesystem::is_regular_file(path, none);
  if (first_step == 0 || !is_file) {
    rewind_lines(path, kBeforeAnything, &step_of_json_line);
    RewoundRecord fresh;
    if (!is_file && first_step > 0 && mark && mark->bytes > 0) {
      fresh.problem =
          text("the record '{}' is missing: it starts again after step {}", path, first_step);
    }
    return fresh;
  }
  RecordScan scan(first_step, mark, eval_pending);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw IoError(text("cannot read '{}': {}", path, std::strerror(errno)));
  for (std::string line; std::getline(in, line);) {
    const bool torn = in.eof();
    if (!torn) line += '\n';
    scan.add(line, torn);
  }
  if (in.bad()) throw IoError(text("cannot read '{}': {}", path, std::strerror(errno)));
  if (scan.drops()) {
    rewind_lines(path, first_step, [&](std::string_view line) {
      return step_to_keep(line, first_step, eval_pending);
    });
  }
  return scan.take(path);
}

}  // namespace accel
