#include "track/tracker_runs.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "core/base/digest.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace accel {
namespace {

using Json = nlohmann::json;

// Keys that TrackerRuns adds to TrackerContext::ids.
constexpr auto kRun = "accel_run.run";
constexpr auto kStart = "accel_run.start_ms";
constexpr auto kExists = "accel_run.exists";

/// The keys of a run's id in the ids() of the built-in trackers.
constexpr const char* kIdKeys[] = {"run_id", "uid", "key", "task"};

std::string path_in(const std::string& run_dir) {
  return run_dir + "/trackers.json";
}

std::string run_id_in(const TrackerIdMap& ids) {
  for (const char* key : kIdKeys) {
    if (ids.contains(key)) return id_text(ids, key);
  }
  return "";
}

}  // namespace

TrackerRuns::TrackerRuns(const std::string& run_dir) : path_(path_in(run_dir)) {
  std::ifstream in(path_, std::ios::binary);
  if (!in) return;
  const std::string content((std::istreambuf_iterator<char>(in)), {});
  try {
    const Json all = Json::parse(content);
    for (const auto& [name, entry] : all.items()) {
      entries_[name] = {entry.at("run").get<std::string>(), entry.at("start_ms").get<int64_t>(),
                        true};
    }
  } catch (const Json::exception&) {
    entries_.clear();
    warn(text("'{}' is invalid: trackers without a checkpoint start new runs", path_));
  }
}

TrackerIdMap TrackerRuns::ids_for(const std::string& name, TrackerIdMap of_checkpoint) {
  const auto [found, added] = entries_.try_emplace(name);
  Entry& entry = found->second;
  if (added) {
    entry.run = run_id_in(of_checkpoint);
    if (entry.run.empty()) entry.run = random_hex32();
    entry.start_ms = milliseconds_since_1970();
    changed_ = true;
  }
  of_checkpoint[kRun] = entry.run;
  of_checkpoint[kStart] = std::to_string(entry.start_ms);
  if (entry.saved) of_checkpoint[kExists] = "1";
  return of_checkpoint;
}

void TrackerRuns::built(const std::string& name, const TrackerIdMap& ids) {
  Entry& entry = entries_[name];
  const std::string run = run_id_in(ids);
  if (run.empty() || entry.run.starts_with(run)) return;
  entry.run = run;
  changed_ = true;
}

void TrackerRuns::save() {
  if (!changed_) return;
  Json out = Json::object();
  for (const auto& [name, entry] : entries_) {
    out[name] = {{"run", entry.run}, {"start_ms", entry.start_ms}};
  }
  write_file_atomically(path_, out.dump(2) + '\n');
  changed_ = false;
}

void TrackerRuns::ended(const std::string& run_dir) {
  std::error_code error;  // the next run then continues the trackers' runs
  std::filesystem::remove(path_in(run_dir), error);
}

TrackedRun tracked_run(const TrackerContext& context, const char* key, size_t length) {
  const TrackerIdMap& ids = context.ids;
  const std::string of_checkpoint = context.first_step > 0 ? id_text(ids, key) : "";
  TrackedRun run;
  run.id = id_text(ids, kRun).substr(0, std::max(length, of_checkpoint.size()));
  if (run.id.empty()) run.id = of_checkpoint;
  if (run.id.empty()) run.id = random_hex32().substr(0, length);
  run.exists = run_exists(context);
  run.resumes = run.id == of_checkpoint;
  run.start_ms = ids.contains(kStart) ? static_cast<int64_t>(id_number(ids, kStart))
                                      : milliseconds_since_1970();
  return run;
}

std::string replacing_id(const TrackedRun& run, int64_t first_step) {
  const std::string seed = run.id + ' ' + std::to_string(first_step);
  constexpr size_t kLongest = 32;
  return digest_of(Digest::Kind::kSha256, seed).substr(0, std::min(kLongest, run.id.size()));
}

bool run_exists(const TrackerContext& context) {
  return context.ids.contains(kExists);
}

}  // namespace accel
