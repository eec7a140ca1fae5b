#include "runner/sweep/sweep_table.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace accel {
namespace {

using TableRow = std::vector<std::string>;

std::vector<std::string> aligned(const std::vector<TableRow>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const TableRow& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::vector<std::string> lines;
  for (const TableRow& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line.append(i > 0 ? 2 : 0, ' ').append(row[i]).append(widths[i] - row[i].size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

void add_values(TableRow& row, const Trial& trial) {
  for (const TrialValue& value : trial.values) row.push_back(value_text(value));
}

void add_keys(TableRow& row, const std::vector<Trial>& trials) {
  for (const TrialValue& value : trials.front().values) row.push_back(value.key);
}

std::string metric_text(const SweepOptions& sweep, const StageResult* result) {
  if (!result) return "";
  const auto found = result->values.find(sweep.ranking.by);
  if (found == result->values.end()) return "";
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.6g", found->second);
  return text.data();
}

/// "done", "missed", "failed (7)", "stage 1 of 3", "to come".
std::string state_text(const SweepProgress& progress, const StageResult* result) {
  if (!result) return "to come";
  if (result->failed) return "failed (" + std::to_string(result->code) + ")";
  if (result->missed()) return "missed";
  if (result->stage + 1 == progress.stages()) return "done";
  return "stage " + std::to_string(result->stage + 1) + " of " + std::to_string(progress.stages());
}

}  // namespace

std::vector<std::string> trial_lines(const std::vector<Trial>& trials) {
  std::vector<TableRow> rows = {{"trial"}};
  add_keys(rows.front(), trials);
  for (const Trial& trial : trials) {
    rows.push_back({trial.name});
    add_values(rows.back(), trial);
  }
  return aligned(rows);
}

std::vector<std::string> ranking_lines(const SweepOptions& sweep, const std::vector<Trial>& trials,
                                       const SweepProgress& progress) {
  std::vector<TableRow> rows = {{"trial", sweep.ranking.by, "step", "state"}};
  add_keys(rows.front(), trials);
  for (const size_t trial : progress.ranking()) {
    const StageResult* result = progress.newest(trial);
    rows.push_back({trials[trial].name, metric_text(sweep, result),
                    result ? std::to_string(result->step) : "", state_text(progress, result)});
    add_values(rows.back(), trials[trial]);
  }
  return aligned(rows);
}

}  // namespace accel
