#include "runner/report/top_frame.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/terminal.h"
#include "core/base/utf8.h"
#include "runner/report/html.h"
#include "runner/report/run_tables.h"

namespace accel {
namespace {

constexpr int kNameColumns = 15;
constexpr int kValueColumns = 11;

std::string padded(const std::string& text, int columns) {
  const int room = std::max(0, columns - columns_of(text));
  return text + std::string(static_cast<size_t>(room), ' ');
}

std::string name_column(const std::string& name) {
  return padded(cut_to_columns(printable(name), kNameColumns - 1), kNameColumns);
}

std::string repeated(const char* text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

std::string curve_line(const std::string& name, const Curve& curve, FrameSize size) {
  const std::string range = "  " + number_words(curve.low()) + " to " + number_words(curve.high());
  std::string line = name_column(name) + padded(number_words(curve.last()), kValueColumns);
  const int room = size.columns - columns_of(line) - std::max(24, columns_of(range));
  if (room >= 4) line += sparkline(curve, room, size.unicode);
  return line + range;
}

double seconds_per_step(const RunSummary& run) {
  double seconds = 0;
  for (const auto& [phase, value] : run.last_seconds) seconds += value;
  return run.last_interval > 0 ? seconds / static_cast<double>(run.last_interval) : 0;
}

std::string step_line(const RunSummary& run, FrameSize size) {
  const double total = run.planned("total_steps");
  const auto step = static_cast<double>(run.step);
  std::string words = "step " + number_words(step);
  if (total <= 0) return words;
  words += " of " + number_words(total);
  const double done = std::clamp(step / total, 0.0, 1.0);
  std::string end = "  " + number_words(std::floor(1000 * done) / 10, 3) + " %";
  const double left = seconds_per_step(run) * (total - step);
  if (run.standing() == RunStanding::kRunning && left > 0)
    end += "  " + duration_words(left) + " left";
  const int room = size.columns - columns_of(words) - columns_of(end) - 2;
  if (room < 4) return words + end;
  const int filled = static_cast<int>(done * room);
  return words + "  " + repeated(size.unicode ? "█" : "#", filled) +
         repeated(size.unicode ? "░" : ".", room - filled) + end;
}

std::string epoch_line(const RunSummary& run) {
  std::string line = name_column("epoch");
  const Curve* epoch = run.curve("train/epoch");
  line += padded(number_words(epoch ? epoch->last() : run.epoch), kValueColumns);
  if (const double ranks = run.planned("ranks"); ranks > 0) {
    line += "ranks " + number_words(ranks) + "  ";
  }
  if (run.skipped > 0) line += "skipped " + number_words(static_cast<double>(run.skipped)) + "  ";
  const double each = seconds_per_step(run);
  if (each > 0 && run.standing() != RunStanding::kPaused) {
    line += number_words(1 / each, 3) + " steps/s";
  }
  return line;
}

/// "data 3 %, forward 40 %" of the last interval, longest first, as many as fit.
std::string time_line(const RunSummary& run, int columns) {
  double total = 0;
  for (const auto& [phase, value] : run.last_seconds) total += value;
  if (!(total > 0)) return "";
  const auto share = [&](const std::string& phase) {
    const auto found = run.last_seconds.find(phase);
    return found == run.last_seconds.end() ? 0 : 100 * found->second / total;
  };
  std::string line = name_column("input wait") +
                     padded(number_words(std::round(share("data"))) + " %", kValueColumns);
  std::vector<std::string> phases;
  for (const auto& [phase, value] : run.last_seconds) {
    if (phase != "data" && share(phase) >= 0.5) phases.push_back(phase);
  }
  std::stable_sort(phases.begin(), phases.end(),
                   [&](const auto& a, const auto& b) { return share(a) > share(b); });
  std::string between;
  for (const std::string& phase : phases) {
    const std::string words = between + phase + " " + number_words(std::round(share(phase))) + " %";
    if (columns_of(line) + columns_of(words) > columns) break;
    line += words;
    between = "  ";
  }
  return line;
}

std::optional<std::time_t> parsed_time(const std::string& text) {
  std::tm parts{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (!end || *end != '\0') return std::nullopt;
  return ::timegm(&parts);
}

/// When the next checkpoint is due according to the plan; empty without one.
std::string next_save(const RunSummary& run, std::time_t now) {
  if (run.standing() != RunStanding::kRunning) return "";
  std::string words;
  if (const double every = run.planned("save_every_steps"); every >= 1) {
    const double next = (std::floor(static_cast<double>(run.step) / every) + 1) * every;
    const double left = next - static_cast<double>(run.step);
    words = "next at step " + number_words(next);
    if (const double each = seconds_per_step(run); each > 0) {
      words += ", in about " + duration_words(left * each);
    }
  }
  if (const double every = run.planned("save_every_seconds"); every > 0) {
    // Time counts from the start of the process and from each save that it triggered.
    const bool saved =
        run.saves > 0 && !run.events.empty() && run.last_save.time > run.events.back().time;
    const std::string since = saved                ? run.last_save.time
                              : run.events.empty() ? ""
                                                   : run.events.back().time;
    const std::optional<std::time_t> last = parsed_time(since);
    const double left = last ? every - std::difftime(now, *last) : every;
    words += std::string(words.empty() ? "next" : ", or") + " in about " +
             duration_words(std::max(0.0, left));
  }
  return words;
}

std::string save_line(const RunSummary& run, std::time_t now) {
  std::string line = next_save(run, now);
  if (run.saves > 0) {
    line.append(line.empty() ? "last " : "; last ");
    line.append(run.last_save.text, 0,
                run.last_save.text.find(' '));  // its duration follows
  }
  return line.empty() ? line : name_column("checkpoint") + printable(line);
}

/// Curves in order of interest.
std::vector<std::pair<std::string, const Curve*>> curves_of(const RunSummary& run) {
  std::vector<std::pair<std::string, const Curve*>> out;
  const auto add = [&](const std::string& name, const Curve* curve) {
    if (curve && !curve->empty()) out.emplace_back(name, curve);
  };
  add("loss", &run.loss);
  add("samples/s", run.curve("train/samples_per_second"));
  add("tokens/s", run.curve("train/tokens_per_second"));
  add("memory MiB", run.curve("memory_mib"));
  add("lr", &run.lr);
  add("grad norm", &run.grad_norm);
  for (const auto& [name, curve] : run.logged) {
    if (name.starts_with("eval/")) add(name, &curve);
  }
  for (const auto& [name, curve] : run.logged) {
    const bool shown = name.starts_with("eval/") || name.starts_with("train/");
    const bool shown_above = name == "memory_mib" || name == "system/memory_mib";
    if (!shown && !shown_above) add(name.substr(name.find('/') + 1), &curve);
  }
  return out;
}

FrameLine title_line(const RunSummary& run, double quiet_seconds) {
  const RunStanding standing = run.standing();
  FrameLine line{printable(run.name) + "  " + standing_words(standing), FrameLine::Look::kTitle};
  const bool running = standing == RunStanding::kRunning;
  if (running || standing == RunStanding::kPaused) {
    line.text += "  " + printable(run.holder);
    constexpr double kLong = 60;
    if (running && quiet_seconds > kLong)
      line.text += "  no news for " + duration_words(quiet_seconds);
  }
  if (standing == RunStanding::kFailed || standing == RunStanding::kCrashed) {
    line.look = FrameLine::Look::kBad;
  }
  return line;
}

}  // namespace

std::string sparkline(const Curve& curve, int columns, bool unicode) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr const char* kAscii[] = {"_", ".", "-", "~", "+", "=", "*", "#"};
  const char* const* const bars = unicode ? kBlocks : kAscii;
  const std::vector<CurvePiece>& pieces = curve.pieces();
  const size_t count = std::min(pieces.size(), static_cast<size_t>(std::max(0, columns)));
  std::vector<double> means;
  for (size_t i = 0; i < count; ++i) {
    double sum = 0;
    int64_t values = 0;
    for (size_t j = i * pieces.size() / count; j < (i + 1) * pieces.size() / count; ++j) {
      sum += pieces[j].sum;
      values += pieces[j].count;
    }
    means.push_back(sum / static_cast<double>(values));
  }
  std::string out;
  if (means.empty()) return out;
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  const double bottom = *low, difference = *high - *low;
  // Means of equal values differ by rounding errors.
  const double largest = std::max(std::fabs(*low), std::fabs(*high));
  const double span = difference > 1e-9 * largest ? difference : 0;
  for (const double mean : means) {
    const double height = span > 0 ? 7.99 * (mean - bottom) / span : 0;
    out += bars[std::isfinite(height) ? std::clamp(static_cast<int>(height), 0, 7) : 0];
  }
  return out;
}

std::vector<FrameLine> top_frame(const RunSummary& run, FrameSize size, std::time_t now,
                                 double quiet_seconds) {
  using Look = FrameLine::Look;
  std::vector<FrameLine> lines = {title_line(run, quiet_seconds)};
  lines.push_back({step_line(run, size), Look::kPlain});
  lines.push_back({epoch_line(run), Look::kPlain});
  for (const std::string& text :
       {time_line(run, size.columns), save_line(run, now), damaged_words(run)}) {
    if (!text.empty()) lines.push_back({text, Look::kPlain});
  }
  for (const auto& [name, curve] : curves_of(run)) {
    lines.push_back({curve_line(name, *curve, size), Look::kPlain});
  }
  if (!run.events.empty()) {
    const RunEvent& event = run.events.back();
    std::string text = name_column(event.name) + "at step " + std::to_string(event.step);
    const bool repeats = event.text == "at step " + std::to_string(event.step);
    if (!event.text.empty() && !repeats) text += ": " + printable(event.text);
    // Shown even if not all curves fit.
    const auto last = std::min(lines.size(), static_cast<size_t>(std::max(2, size.rows - 1)));
    lines.resize(last);
    lines.push_back({text, event.name == "failed" ? Look::kBad : Look::kFaint});
  }
  lines.resize(std::min(lines.size(), static_cast<size_t>(std::max(1, size.rows))));
  for (FrameLine& line : lines) line.text = cut_to_columns(line.text, size.columns);
  return lines;
}

}  // namespace accel
