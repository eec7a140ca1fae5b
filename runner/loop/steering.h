// What is asked of a run while it trains, and what was asked in an earlier life of it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "runner/job/job.h"
#include "runner/track/control_box.h"
#include "runner/track/control_journal.h"
#include "runner/track/record.h"

namespace accel {

/// Gives options that the journal of the run in `run_dir` knows the values they have in
/// `checkpoint`, a recipe as a checkpoint keeps it; not those whose keys are in `without`. What
/// came after the checkpoint is then done again at its step. All ranks call it, before the job gets
/// its state.
void steer_back(Job& job, const std::string& run_dir, const std::string& checkpoint,
                const std::vector<std::string>& without);

/// What the loop does for an order. Called on all ranks at once.
struct SteeringActions {
  std::function<std::string()> save;  ///< returns what there is to say of it
  std::function<void()> evaluate;
  std::function<void(const std::string& key)> changed;  ///< an option has another value
  std::function<bool()> any_must_stop;                  ///< a signal or a deadline
};

/// Rank 0 takes orders from the run's folder and tells the others; between two steps all obey.
class Steering {
 public:
  /// `leads`: this is rank 0, which has the folder. At step 0 the journal is begun anew.
  Steering(Job& job, RunRecord& record, const std::string& run_dir, int64_t step, bool leads);

  /// Whether this rank knows of something to be done after `step` steps.
  bool waiting(int64_t step);
  /// To be called by all ranks when one of them is waiting. True: the run is to save and end.
  bool obey(int64_t step, const SteeringActions& actions);

 private:
  std::string next_order(int64_t step);
  /// Whether rank 0 can obey all of them; it refuses them otherwise.
  bool are_possible(const std::deque<std::string>& orders);
  /// Why rank 0 cannot obey, with a hint on a second line; "" when it can.
  std::string obstacle(const std::string& order) const;
  std::string carry_out(int64_t step, const std::string& order, const SteeringActions& actions);
  std::string change(int64_t step, const std::string& order, const SteeringActions& actions);
  void write_down(int64_t step, const JournalEntry& entry);

  Job& job_;
  RunRecord& record_;
  std::string run_dir_;
  std::optional<ControlBox> box_;      ///< rank 0's
  std::deque<JournalEntry> again_;     ///< rank 0's: of an earlier life, still to be done
  std::optional<ControlOrder> order_;  ///< that is being obeyed; nothing for one of again_
  std::deque<std::string> parts_;      ///< of it, still to be done: it is a line for each
  std::string told_;                   ///< of those that are done
  bool paused_ = false;
  bool stops_ = false;
};

}  // namespace accel
