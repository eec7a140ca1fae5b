// Commands to a running process, and their replay after a resume.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "track/record.h"
#include "train/control/control_box.h"
#include "train/control/control_journal.h"
#include "train/job/job.h"

namespace accel {

/// Sets the options in the run's journal to their values in `checkpoint`, the recipe of a
/// checkpoint, except for the keys in `without`. RunControl replays later changes at their steps.
/// All ranks call it before the job's state is restored.
void replay_commands(Job& job, const std::string& run_dir, const std::string& checkpoint,
                     const std::vector<std::string>& without);

/// The loop's actions for commands, called on all ranks.
struct RunControlActions {
  std::function<std::string()> save;  ///< returns the answer
  std::function<void()> evaluate;
  std::function<void(const std::string& key)> changed;  ///< after an option has changed
  std::function<bool()> any_must_stop;                  ///< a signal or a deadline
};

/// Rank 0 reads commands from the run folder and broadcasts them; all ranks apply them between two
/// steps.
class RunControl {
 public:
  /// `leads`: true on rank 0, which reads the folder. At step 0 the journal is cleared.
  RunControl(Job& job, RunRecord& record, const std::string& run_dir, int64_t step, bool leads);

  /// Whether this rank has a command to apply after `step` steps.
  bool waiting(int64_t step);
  /// Called by all ranks when waiting() is true on one. True: the run has to save and end.
  bool apply(int64_t step, const RunControlActions& actions);

 private:
  std::string next_command(int64_t step);
  /// Whether rank 0 can apply all of them; refuses them otherwise.
  bool are_possible(const std::deque<std::string>& commands);
  /// Why the command is invalid, with a hint on a second line; "" when it is valid.
  std::string obstacle(const std::string& command) const;
  std::string run_command(int64_t step, const std::string& command,
                          const RunControlActions& actions);
  std::string change(int64_t step, const std::string& command, const RunControlActions& actions);
  void record(int64_t step, const JournalEntry& entry);

  Job& job_;
  RunRecord& record_;
  std::string run_dir_;
  std::optional<ControlBox> box_;          ///< rank 0's
  std::deque<JournalEntry> replay_;        ///< rank 0's: of an earlier process, to be replayed
  std::optional<ControlCommand> command_;  ///< being applied; nullopt during replay
  std::deque<std::string> pending_;        ///< its remaining lines
  std::string answer_;                     ///< results of the lines applied so far
  bool paused_ = false;
  bool stops_ = false;
};

}  // namespace accel
