// Which sequences go together into samples of at most so many tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace accel {

/// Sequences in their order, each into the first of the last 64 samples with room that has room for
/// it, else into a new one. The same sequences always give the same samples.
class Packing {
 public:
  Packing() = default;
  /// `length(i)` of the sequences 0 to `count` - 1 is from 1 to `most`.
  Packing(int64_t count, int64_t most, const std::function<int64_t(int64_t)>& length);

  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  /// The sequences of a sample, ascending.
  std::span<const int64_t> members(int64_t sample) const;

 private:
  std::vector<int64_t> ends_;  ///< of each sample, among all members
  std::vector<int64_t> members_;
};

}  // namespace accel
