// Elastic restarts over several machines: the state machine of machine 0's launcher, free of
// sockets and clocks: events in, orders out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace accel {

struct MachineGroupRules {
  int64_t most = 1;   ///< machines of the run
  int64_t least = 1;  ///< machines that it may continue with
  int64_t max_restarts = 0;
  int64_t join_timeout_ms = 120'000;    ///< for the machines to appear
  int64_t regroup_timeout_ms = 30'000;  ///< the same after a failure, with `least` machines there
};

/// How the ranks of a machine ended in a generation.
struct MachineEnd {
  int64_t generation = 0;
  int code = 0;
  bool primary = false;     ///< not merely the loss of another rank
  int64_t first_step = -1;  ///< the first step that the ranks reached; -1: none
};

enum class OrderKind {
  kStart,   ///< start the ranks of `generation` as machine `rank` of `machines`
  kStop,    ///< kill the ranks
  kSave,    ///< ask the ranks to save and stop
  kFinish,  ///< end the launcher with exit code `code`
};

struct MachineOrder {
  int64_t machine = 0;  ///< the member that it is for
  OrderKind kind = OrderKind::kStart;
  int64_t generation = 0, machines = 0, rank = 0;
  int code = 0;
};

/// Rules:
/// - A generation starts when all machines are there, or `least` of them at the timeout.
/// - After a failure all machines stop and start again, at most `max_restarts` times. Exit codes
///   that no restart repairs end the run on all machines. A generation that resumed from a newer
///   checkpoint than the last one resets the count.
/// - Restarts without progress wait 0, 1, 2, 4, ... 30 seconds.
/// - A machine that appears while others train is taken in after a save, where machines lack.
///
/// Members are named by their machine rank, which all machines are given.
class MachineGroup {
 public:
  explicit MachineGroup(const MachineGroupRules& rules) : rules_(rules) {}

  void joined(int64_t machine, const std::string& host, int64_t now_ms);
  /// Its connection is closed or silent.
  void lost(int64_t machine, int64_t now_ms);
  void ended(int64_t machine, const MachineEnd& end, int64_t now_ms);
  /// A user's second signal, or an error of the launcher, on this machine.
  void quit(int64_t machine, int code);
  void tick(int64_t now_ms);

  /// The orders since the last call.
  std::vector<MachineOrder> take_orders();
  /// Lines for the user since the last call.
  std::vector<std::string> take_notes();
  bool finished() const { return state_ == State::kFinished; }

 private:
  enum class State { kGathering, kWaiting, kRunning, kFinished };
  struct Member {
    std::string host;
    bool runs = false;
  };

  void order(int64_t machine, OrderKind kind, int code = 0);
  void start(int64_t now_ms);
  void blame(int code, bool primary, int64_t now_ms);
  void stop_all();
  void judge(int64_t now_ms);
  void restart(int64_t now_ms);
  void finish(int code);
  bool any_runs() const;
  std::string missing() const;

  MachineGroupRules rules_;
  State state_ = State::kGathering;
  std::map<int64_t, Member> members_;
  std::vector<MachineOrder> orders_;
  std::vector<std::string> notes_;
  int64_t generation_ = -1, machines_ = 0, restarts_ = 0;
  int64_t since_ms_ = -1;  ///< of the state
  int64_t start_at_ms_ = 0, stop_at_ms_ = -1;
  int64_t first_step_ = -1, last_first_step_ = -1;
  int failure_ = 0, well_ = 0;
  bool primary_ = false, growing_ = false, stopping_ = false;
};

}  // namespace accel
