#include "runner/report/run_summary.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

/// SAX handler: builds no tree, since records may have millions of lines.
class RecordLineReader final : public nlohmann::json_sax<Json> {
 public:
  RecordLine line;

  bool null() override { return number(std::numeric_limits<double>::quiet_NaN()); }
  bool boolean(bool value) override {
    if (depth_ == 1 && key_ == "skipped") line.skipped = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    if (depth_ == 1 && key_ == "step") line.step = value;
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto kMost = static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max());
    if (value > kMost) return false;
    return number_integer(static_cast<number_integer_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    if (depth_ != 1) {
      if (depth_ == 2 && line.kind == RecordLine::Kind::kAbout) {
        line.texts.emplace_back(key_, std::move(value));
      }
      return true;
    }
    if (key_ == "loss_bits") line.kind = RecordLine::Kind::kStep;
    if (key_ == "event") {
      line.kind = RecordLine::Kind::kEvent;
      line.event = std::move(value);
    } else if (key_ == "text") {
      line.text = std::move(value);
    } else if (key_ == "time") {
      line.time = std::move(value);
    }
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override {
    ++depth_;
    if (depth_ != 2) return depth_ == 1;
    if (key_ == "eval") line.kind = RecordLine::Kind::kEval;
    if (key_ == "log") line.kind = RecordLine::Kind::kLog;
    if (key_ == "use") line.kind = RecordLine::Kind::kUse;
    if (key_ == "plan") line.kind = RecordLine::Kind::kPlan;
    if (key_ == "actual") line.kind = RecordLine::Kind::kActual;
    if (key_ == "about") line.kind = RecordLine::Kind::kAbout;
    return true;
  }
  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return false; }
  bool end_array() override { return false; }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

 private:
  bool number(double value) {
    if (depth_ == 2) {
      line.values.emplace_back(key_, value);
    } else if (key_ == "epoch") {
      line.epoch = value;
    } else if (key_ == "samples") {
      line.samples = value;
    } else if (key_ == "loss") {
      line.loss = value;
    } else if (key_ == "grad_norm") {
      line.grad_norm = value;
    } else if (key_ == "lr") {
      line.lr = value;
    }
    return depth_ > 0;
  }

  int depth_ = 0;
  std::string key_;
};

/// The first word of a file in /proc.
std::string first_word(const std::string& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

std::string this_host() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

/// Start time of a process in seconds since boot.
std::optional<double> start_of(long pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t name_end = text.rfind(')');  // a program's name may contain anything
  const std::string uptime = first_word("/proc/uptime");
  if (name_end == text.npos || uptime.empty()) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  constexpr int kStartTime = 20;  // counted after the name
  for (int i = 0; i < kStartTime; ++i) fields >> field;
  double ticks = 0, up = 0;
  std::from_chars(field.data(), field.data() + field.size(), ticks);
  std::from_chars(uptime.data(), uptime.data() + uptime.size(), up);
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) - up +
         ticks / static_cast<double>(std::max(1L, ::sysconf(_SC_CLK_TCK)));
}

constexpr size_t kMostCurves = 40;
constexpr size_t kMostNames = 64;
constexpr size_t kFirstEvents = 20;
constexpr size_t kMostEvents = 200;
constexpr std::string_view kTime = "time/";

constexpr size_t kLongestLine = size_t{1} << 20;  // longer lines are not of a run

/// Calls `take` with every whole line from `offset` on, cut after kLongestLine; returns the offset
/// after the last one.
template <class Take>
int64_t each_line(const std::string& path, int64_t offset, const Take& take) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw IoError(accel::text("cannot read '{}': {}", path, std::strerror(errno)));
  in.seekg(offset);
  std::string line;
  std::vector<char> block(size_t{1} << 16);
  int64_t next = offset;
  for (int64_t start = offset;; start += in.gcount()) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    const char* at = block.data();
    const char* const end = at + in.gcount();
    for (const char* stop = std::find(at, end, '\n'); stop != end;
         stop = std::find(at, end, '\n')) {
      if (line.size() <= kLongestLine) line.append(at, stop);
      take(line);
      line.clear();
      at = stop + 1;
      next = start + (at - block.data());
    }
    if (line.size() <= kLongestLine) line.append(at, end);
    if (!in) break;
  }
  if (in.bad()) throw IoError(accel::text("cannot read '{}': {}", path, std::strerror(errno)));
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

/// A hint for a folder that is not a run folder.
std::string hint_of_folder(const std::string& dir) {
  std::error_code none;
  if (std::filesystem::exists(dir + "/sweep.jsonl", none)) {
    return accel::text("it is a sweep: give one of its trials, such as '{}/trial_000'", dir);
  }
  const std::string likely = "runs/" + dir;
  return is_run_folder(likely) ? accel::text("did you mean '{}'?", likely)
                               : "give the folder that 'run' printed, such as runs/NAME";
}

}  // namespace

std::optional<RecordLine> read_record_line(std::string_view line) {
  RecordLineReader reader;
  if (!Json::sax_parse(line, &reader) || reader.line.step < 0) return std::nullopt;
  return std::move(reader.line);
}

RunPulse run_pulse(const std::string& run_dir, std::string& holder) {
  const std::string path = run_dir + "/run.lock";
  struct stat facts = {};
  holder.clear();
  if (::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return RunPulse::kNobody;
  std::ifstream in(path);
  std::string key, boot;
  std::getline(in, holder);
  in >> key >> boot;
  long pid = 0;
  constexpr std::string_view kProcess = "process ";
  if (!holder.starts_with(kProcess)) return RunPulse::kNobody;
  std::from_chars(holder.data() + kProcess.size(), holder.data() + holder.size(), pid);
  const bool here = holder.ends_with("'" + this_host() + "'");
  const std::string this_boot = first_word("/proc/sys/kernel/random/boot_id");
  if (!here && boot != this_boot) return RunPulse::kElsewhere;
  if (boot != this_boot) return RunPulse::kSilent;  // the machine was rebooted
  const std::optional<double> started = start_of(pid);
  if (!started) return here ? RunPulse::kSilent : RunPulse::kElsewhere;
  // The pid may be reused: such a process started after the lock was written.
  constexpr double kClockError = 5;
  const bool later = *started > static_cast<double>(facts.st_mtime) + kClockError;
  return later ? RunPulse::kSilent : RunPulse::kAlive;
}

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
    actual.clear();  // a new process
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
  const bool interval = line.step > last_use;  // the last line of a run has only totals
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
  // A failure is recorded at the start step of its process, so that a resume keeps it.
  RunEvent event{std::max(line.step, step), line.event, line.text, line.time};
  if (event.name == "start" || event.name == "resume") last_use = line.step;
  if (event.name == "save") {
    ++saves;
    constexpr std::string_view kFolder = "/checkpoints/";  // of this run
    const size_t folder = event.text.find(kFolder);
    if (folder != event.text.npos) event.text.erase(0, folder + kFolder.size());
    last_save = std::move(event);
    events_before_save = events.size();
    return;
  }
  events.push_back(std::move(event));
  if (events.size() <= kMostEvents) return;
  events.erase(events.begin() + kFirstEvents);
  if (events_before_save > kFirstEvents) --events_before_save;
  ++events_left_out;
}

/// Other commands during a pause do not end it.
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

RunFollower::RunFollower(const std::string& run_dir) : path_(run_dir + "/metrics.jsonl") {
  if (!is_run_folder(run_dir)) {
    struct stat facts = {};
    if (::stat(path_.c_str(), &facts) != 0 && errno == EACCES) {
      throw IoError(accel::text("cannot read '{}': {}", path_, std::strerror(EACCES)),
                    "it belongs to another user, or to a folder of one");
    }
    throw Error(ExitCode::kRecipe,
                accel::text("'{}' is not a run folder: it has no metrics.jsonl", run_dir),
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
  if (missing) {  // the run has just started
    start_over();
  } else {
    const uint64_t id = id_of(path_);
    if (id != file_id_ || size < offset_) start_over();
    file_id_ = id;
    offset_ = each_line(path_, offset_, [this](const std::string& text) {
      if (const auto line = read_record_line(text)) {
        summary_.add(*line);
      } else {
        ++summary_.damaged_lines;
      }
    });
  }
  summary_.pulse = run_pulse(summary_.folder, summary_.holder);
  return summary_;
}

RunSummary read_run(const std::string& run_dir) {
  return RunFollower(run_dir).update();
}

}  // namespace accel
