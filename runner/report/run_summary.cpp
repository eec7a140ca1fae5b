#include "runner/report/run_summary.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostCurves = 40;
constexpr size_t kMostNames = 64;
constexpr size_t kFirstEvents = 20;
constexpr size_t kMostEvents = 200;
constexpr std::string_view kTime = "time/";

/// Calls `take` with every whole line from `offset` on, and returns where the next one begins.
template <class Take>
int64_t each_line(const std::string& path, int64_t offset, const Take& take) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw IoError("cannot read '" + path + "': " + std::strerror(errno));
  in.seekg(offset);
  constexpr size_t kLongestLine = size_t{1} << 20;  // a longer one is no run's, and is not kept
  std::string line;
  std::vector<char> block(size_t{1} << 16);
  int64_t next = offset;
  for (int64_t start = offset;; start += in.gcount()) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    const char* at = block.data();
    const char* const end = at + in.gcount();
    for (const char* stop = std::find(at, end, '\n'); stop != end;
         stop = std::find(at, end, '\n')) {
      line.append(at, stop);
      if (line.size() <= kLongestLine) take(line);
      line.clear();
      at = stop + 1;
      next = start + (at - block.data());
    }
    if (line.size() <= kLongestLine) line.append(at, end);
    if (!in) break;
  }
  if (in.bad()) throw IoError("cannot read '" + path + "': " + std::strerror(errno));
  return next;
}

uint64_t id_of(const std::string& path) {
  struct stat facts = {};
  return ::stat(path.c_str(), &facts) == 0 ? facts.st_ino : 0;
}

void keep_values(const RecordLine& line, std::map<std::string, double>& to) {
  for (const auto& [key, value] : line.values) {
    if (to.size() < kMostNames || to.contains(key)) to[key] = value;
  }
}

bool is_run_folder(const std::string& folder) {
  std::error_code unknown;
  return fs::is_regular_file(folder + "/metrics.jsonl", unknown) ||
         fs::exists(folder + "/recipe.yaml", unknown);
}

}  // namespace

void RunSummary::add(const RecordLine& line) {
  if (line.kind == RecordLine::Kind::kStep) {
    ++steps_read;
    step = line.step;
    epoch = line.epoch;
    samples = line.samples;
    loss.add(line.step, line.loss);
    lr.add(line.step, line.lr);
    if (line.grad_norm) grad_norm.add(line.step, *line.grad_norm);
    if (line.skipped && skipped++ == 0) first_skipped = line.step;
  } else if (line.kind == RecordLine::Kind::kEval || line.kind == RecordLine::Kind::kLog) {
    add_values(line);
  } else if (line.kind == RecordLine::Kind::kUse) {
    add_use(line);
  } else if (line.kind == RecordLine::Kind::kPlan) {
    actual.clear();  // a process begins
    keep_values(line, plan);
  } else if (line.kind == RecordLine::Kind::kActual) {
    keep_values(line, actual);
  } else if (line.kind == RecordLine::Kind::kAbout) {
    about = line.texts;
    about.resize(std::min(about.size(), kMostNames));
  } else if (line.kind == RecordLine::Kind::kEvent) {
    add_event(line);
  }
}

void RunSummary::add_values(const RecordLine& line) {
  for (const auto& [key, value] : line.values) {
    if (logged.size() < kMostCurves || logged.contains(key)) {
      logged[key].add(line.step, value);
    } else {
      ++names_left_out;
    }
  }
}

void RunSummary::add_use(const RecordLine& line) {
  const bool interval = line.step > last_use;  // the last line of a run tells of its end alone
  if (interval) {
    last_seconds.clear();
    last_interval = line.step - last_use;
    last_use = line.step;
  }
  RecordLine others{.kind = line.kind, .step = line.step};
  for (const auto& [key, value] : line.values) {
    if (!key.starts_with(kTime)) {
      others.values.emplace_back(key, value);
      continue;
    }
    const std::string phase = key.substr(kTime.size());
    if (seconds.size() >= kMostNames && !seconds.contains(phase)) continue;
    if (!std::isfinite(value) || value < 0) continue;
    seconds[phase] += value;
    if (interval) last_seconds[phase] = value;
  }
  add_values(others);
}

void RunSummary::add_event(const RecordLine& line) {
  // A failure is recorded where its process began, so that a resume does not cut it off.
  RunEvent event{std::max(line.step, step), line.event, line.text, line.time};
  if (event.name == "start" || event.name == "resume") last_use = line.step;
  if (event.name == "save") {
    ++saves;
    constexpr std::string_view kFolder = "/checkpoints/";  // which is this run's
    const size_t folder = event.text.find(kFolder);
    if (folder != event.text.npos) event.text.erase(0, folder + kFolder.size());
    last_save = std::move(event);
    return;
  }
  events.push_back(std::move(event));
  if (events.size() <= kMostEvents) return;
  events.erase(events.begin() + kFirstEvents);
  ++events_left_out;
}

/// What it is told while it waits does not end that.
bool RunSummary::paused() const {
  const auto last = std::find_if(events.rbegin(), events.rend(), [](const RunEvent& event) {
    return event.name != "ctl" && event.name != "changed";
  });
  return last != events.rend() && last->name == "paused";
}

RunStanding RunSummary::standing() const {
  if (pulse == RunPulse::kAlive) return paused() ? RunStanding::kPaused : RunStanding::kRunning;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->name == "end") return RunStanding::kFinished;
    if (event->name == "interrupted") return RunStanding::kInterrupted;
    if (event->name == "failed") return RunStanding::kFailed;
    if (event->name == "start" || event->name == "resume") break;
  }
  return pulse == RunPulse::kElsewhere ? RunStanding::kUnknown : RunStanding::kCrashed;
}

const RunEvent* RunSummary::last_event(const std::string& name) const {
  const auto found = std::find_if(events.rbegin(), events.rend(),
                                  [&](const RunEvent& event) { return event.name == name; });
  return found == events.rend() ? nullptr : &*found;
}

const Curve* RunSummary::curve(const std::string& key) const {
  const auto found = logged.find(key);
  return found == logged.end() || found->second.empty() ? nullptr : &found->second;
}

double RunSummary::planned(const std::string& key) const {
  const auto found = plan.find(key);
  return found == plan.end() || !std::isfinite(found->second) ? 0 : found->second;
}

double RunSummary::total_seconds() const {
  double sum = 0;
  for (const auto& [phase, value] : seconds) sum += value;
  return sum;
}

namespace {

/// What may have been meant by a folder that is no run's.
std::string hint_of_folder(const std::string& dir) {
  std::error_code none;
  if (std::filesystem::exists(dir + "/sweep.jsonl", none)) {
    return "it is a sweep's: give one of its trials, such as '" + dir + "/trial_000'";
  }
  const std::string likely = "runs/" + dir;
  return is_run_folder(likely) ? "did you mean '" + likely + "'?"
                               : "give the folder that 'run' printed, such as runs/NAME";
}

}  // namespace

RunFollower::RunFollower(const std::string& run_dir) : path_(run_dir + "/metrics.jsonl") {
  if (!is_run_folder(run_dir)) {
    throw Error(ExitCode::kRecipe, "'" + run_dir + "' is no run folder: it has no metrics.jsonl",
                hint_of_folder(run_dir));
  }
  summary_.folder = run_dir;
  start_over();
}

void RunFollower::start_over() {
  RunSummary fresh;
  fresh.folder = summary_.folder;
  const fs::path path = fs::absolute(fresh.folder).lexically_normal();
  fresh.name = (path.has_filename() ? path : path.parent_path()).filename().string();
  summary_ = std::move(fresh);
  offset_ = 0;
}

const RunSummary& RunFollower::update() {
  std::error_code missing;
  const auto size = static_cast<int64_t>(fs::file_size(path_, missing));
  if (missing) {  // the run has only just begun
    start_over();
  } else {
    const uint64_t id = id_of(path_);
    if (id != file_id_ || size < offset_) start_over();
    file_id_ = id;
    offset_ = each_line(path_, offset_, [this](const std::string& text) {
      if (const auto line = read_record_line(text)) summary_.add(*line);
    });
  }
  summary_.pulse = run_pulse(summary_.folder, summary_.holder);
  return summary_;
}

RunSummary read_run(const std::string& run_dir) {
  return RunFollower(run_dir).update();
}

}  // namespace accel
