// Which run each tracker writes: trackers.json in the run folder.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/api/tracker.h"
#include "track/run_names.h"

namespace accel {

/// The file has the id of each tracker's run, written and synced before the run exists. Rule: the
/// file says which run a tracker writes; the ids of a checkpoint say how far that run is, and count
/// only if they are of the run in the file. Without an entry, the run of the checkpoint gets it.
/// The file is removed when the run finishes or its recipe fails: what is started from step 0 then
/// is another run.
class TrackerRuns {
 public:
  /// Reads the file in `run_dir`; warns of an invalid one, which counts as missing.
  explicit TrackerRuns(const std::string& run_dir);

  /// The TrackerContext::ids of the tracker `name`: `of_checkpoint` and the entry of the file,
  /// which is added if it is missing.
  TrackerIdMap ids_for(const std::string& name, TrackerIdMap of_checkpoint);
  /// Takes Tracker::ids() of a tracker that has been built: one that has lost the files of its run
  /// writes another one.
  void built(const std::string& name, const TrackerIdMap& ids);
  /// Writes the file if it has changed. Throws IoError.
  void save();
  /// Removes the file in `run_dir`.
  static void ended(const std::string& run_dir);

 private:
  struct Entry {
    std::string run;
    int64_t start_ms = 0;
    bool saved = false;  ///< by an earlier process
  };

  std::string path_;
  std::map<std::string, Entry> entries_;
  bool changed_ = false;
};

/// The run that a built-in tracker writes.
struct TrackedRun {
  std::string id;
  int64_t start_ms = 0;
  /// An earlier process may have created it.
  bool exists = false;
  /// It is the checkpoint's, whose ids are positions in it. Otherwise it starts empty.
  bool resumes = false;
};

/// `key`: the tracker's key of its run id in Tracker::ids(). A new id has `length` hex digits.
TrackedRun tracked_run(const TrackerContext& context, const char* key, size_t length = 32);

/// The id of the run that replaces `run` when its files are missing: the same whenever a run is
/// resumed at this step, so that a process that is killed leaves no second one.
std::string replacing_id(const TrackedRun& run, int64_t first_step);

/// As TrackedRun::exists, for a tracker without run ids.
bool run_exists(const TrackerContext& context);

}  // namespace accel
