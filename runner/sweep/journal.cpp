#include "runner/sweep/journal.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include <nlohmann/json.hpp>

#include "core/base/json_text.h"
#include "core/base/text.h"

namespace accel {
namespace {

using Json = nlohmann::json;

/// The description that must match on resume: without parallelism and ranking.
std::string description(const SweepOptions& sweep, const std::vector<Trial>& trials) {
  std::string out = "{\"recipe\":" + json_text(sweep.recipe) + ",\"trials\":[";
  for (const Trial& trial : trials) {
    out += trial.name == trials.front().name ? "[" : ",[";
    for (const TrialValue& value : trial.values) {
      out += (out.back() == '[' ? "" : ",") + json_text(override_text(value));
    }
    out += ']';
  }
  out += "],\"overrides\":[";
  for (const auto& [key, value] : sweep.overrides) {
    out += (out.back() == '[' ? "" : ",") + json_text(override_text({key, value}));
  }
  out += "],\"stages\":[";
  for (const StageSection& stage : sweep.stages) {
    out += (out.back() == '[' ? "" : ",") + json_text(to_string(stage.until));
    if (!stage.promote) continue;
    const Better mode = stage.promote->mode.value_or(sweep.ranking.mode);
    out += "," + json_text(std::to_string(stage.promote->keep) + " by " +
                           stage.promote->metric.value_or(sweep.ranking.metric) +
                           (mode == Better::kMin ? " min" : " max"));
  }
  return out + "]}";
}

StageResult result_of(const std::string& text, const std::string& path) try {
  const Json line = Json::parse(text);
  StageResult result;
  result.trial = line.at("trial").get<size_t>();
  result.stage = line.at("stage").get<size_t>();
  result.failed = line.at("failed").get<bool>();
  result.code = line.at("code").get<int>();
  result.step = line.at("step").get<int64_t>();
  result.values = line.at("values").get<std::map<std::string, double>>();
  return result;
} catch (const Json::exception&) {
  throw IoError(accel::text("'{}' has a line that is not of a sweep: {}", path, text),
                "move the sweep's folder away");
}

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

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

std::optional<double> metric_of(const SweepOptions& sweep, const StageResult* result) {
  if (!result) return std::nullopt;
  const auto found = result->values.find(sweep.ranking.metric);
  return found == result->values.end() ? std::nullopt : std::optional(found->second);
}

/// The metric of each trial, all with the same digits after the point, or all with an exponent.
std::map<size_t, std::string> metric_texts(const SweepOptions& sweep,
                                           const SweepProgress& progress) {
  std::map<size_t, double> values;
  bool fixed = true;
  for (const size_t trial : progress.ranking()) {
    const std::optional<double> value = metric_of(sweep, progress.newest(trial));
    if (!value) continue;
    values[trial] = *value;
    constexpr double kSmall = 1e-3, kLarge = 1e7;
    const double size = std::fabs(*value);
    fixed = fixed && (size == 0 || (size >= kSmall && size < kLarge));
  }
  std::map<size_t, std::string> texts;
  for (const auto& [trial, value] : values) {
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), fixed ? "%.4f" : "%.3e", value);
    texts[trial] = text.data();
  }
  return texts;
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

SweepJournal::SweepJournal(std::string path, const SweepOptions& sweep,
                           const std::vector<Trial>& trials)
    : path_(std::move(path)) {
  const std::string text = read_all(path_);
  const std::string first = description(sweep, trials);
  size_t whole = 0;  // bytes of whole lines
  for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n', whole)) {
    const std::string line = text.substr(whole, end - whole);
    if (whole == 0) {
      if (line != first) {
        throw Error(ExitCode::kRecipe,
                    accel::text("'{}' belongs to a sweep with other trials or stages", path_),
                    "give the sweep another 'name', or move its folder away");
      }
    } else {
      results_.push_back(result_of(line, path_));
    }
    whole = end + 1;
  }
  file_.emplace(path_);
  if (::truncate(path_.c_str(), static_cast<off_t>(whole)) != 0) {
    throw IoError(accel::text("cannot write '{}': {}", path_, std::strerror(errno)));
  }
  if (whole == 0) append(first);
}

void SweepJournal::add(const StageResult& result) {
  std::string line = "{\"trial\":" + std::to_string(result.trial);
  line += ",\"stage\":" + std::to_string(result.stage);
  line += std::string(",\"failed\":") + (result.failed ? "true" : "false");
  line += ",\"code\":" + std::to_string(result.code);
  line += ",\"step\":" + std::to_string(result.step) + ",\"values\":{";
  for (const auto& [name, value] : result.values) {
    line += (line.back() == '{' ? "" : ",") + json_text(name) + ":" + json_number(value);
  }
  append(line + "}}");
}

void SweepJournal::append(const std::string& line) {
  file_->append(line + '\n');
  file_->sync();
}

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
  std::vector<TableRow> rows = {{"trial", sweep.ranking.metric, "step", "state"}};
  add_keys(rows.front(), trials);
  std::map<size_t, std::string> metrics = metric_texts(sweep, progress);
  for (const size_t trial : progress.ranking()) {
    const StageResult* result = progress.newest(trial);
    rows.push_back({trials[trial].name, metrics[trial], result ? std::to_string(result->step) : "",
                    state_text(progress, result)});
    add_values(rows.back(), trials[trial]);
  }
  return aligned(rows);
}

}  // namespace accel
