// Faults that tests ask for, so that a rank dies or hangs in a collective of their choice.
#pragma once

#include <cstdint>
#include <optional>

namespace accel {

/// ACCEL_RUN_FAULT=ACTION:RANK:SEQUENCE:WHEN, where ACTION is kill, stop or spin, SEQUENCE the
/// number of a collective and WHEN before, during or after it; during is 0.2 ms behind its start.
class Fault {
 public:
  /// What the environment asks of this rank, if anything. Throws Error for what is none.
  static std::optional<Fault> of_rank(int64_t rank);

  void entered(int64_t sequence) const noexcept;
  void left(int64_t sequence) const noexcept;

 private:
  enum class Action { kKill, kStop, kSpin };
  enum class When { kBefore, kDuring, kAfter };

  void act() const noexcept;

  Action action_ = Action::kKill;
  When when_ = When::kBefore;
  int64_t sequence_ = 0;
};

}  // namespace accel
