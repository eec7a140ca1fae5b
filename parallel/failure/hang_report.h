// HangReport: the error for a collective that hangs, with what the other ranks have called.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "parallel/failure/collective_log.h"

namespace c10d {
class Store;
}

namespace accel {

class LostRanks;

/// The last call of a rank in each of its groups, by the group's name.
using RankCalls = std::map<std::string, LoggedCall>;

/// A call that waits longer than the timeout.
struct HungCall {
  LoggedCall call;
  LoggedGroup group;
  int64_t seconds = 0;  ///< waiting time
};

/// Exchanges the calls of the ranks through the store, for seven seconds at most. The first rank
/// that waits too long asks the others; all get its error, also those that wait for nothing.
class HangReport {
 public:
  struct Options {
    int64_t rank = 0;
    int64_t world = 1;
    /// The store of LostRanks by a separate connection, since a waiting thread blocks its own.
    c10::intrusive_ptr<c10d::Store> store;
    bool of_rank_0 = false;  ///< rank 0 serves the store
    std::shared_ptr<const LostRanks> ranks;
  };

  explicit HangReport(Options options);

  /// Whether a rank has reported a hang. May block. Throws when the store is gone.
  bool is_requested() const;
  /// The error (kTimeout) of this rank's `hung`, or of the rank that was first.
  Error of_waiting(const HungCall& hung, const RankCalls& own) const;
  /// The error of the rank that has reported a hang.
  Error of_other(const RankCalls& own) const;

 private:
  /// "rank 0 waited longer than 'accelerator.timeout', 600 s, at step 7, in collective 41 ..."
  std::string waited(const HungCall& hung) const;
  /// Without the other ranks, which do not answer.
  Error of_alone(const std::string& waited) const;
  Error ask_ranks(const HungCall& hung, const RankCalls& own) const;
  /// The answers of `asked` ranks.
  std::map<int64_t, RankCalls> collect(const std::vector<int64_t>& asked,
                                       std::chrono::milliseconds patience) const;
  Error judged(const HungCall& hung, const std::vector<int64_t>& asked,
               const std::map<int64_t, RankCalls>& answers) const;
  /// Of the rank that has reported first; null when it does not come.
  std::optional<Error> await_verdict() const;
  void await_readers() const;

  Options options_;
};

}  // namespace accel
