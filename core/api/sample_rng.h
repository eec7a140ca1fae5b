// Random stream of one sample: a pure function of (seed, epoch, sample), so that augmentation is
// independent of workers, order and resume.
#pragma once

#include <cstdint>

namespace accel {

/// SplitMix64 (Steele et al., 2014) keyed by three numbers.
class SampleRng {
 public:
  SampleRng(uint64_t seed, uint64_t epoch, uint64_t sample);

  uint64_t next();
  /// In [0, 1).
  double uniform();
  /// In [0, bound); bound > 0. Unbiased.
  uint64_t below(uint64_t bound);
  /// Standard normal.
  double normal();

 private:
  uint64_t state_;
};

}  // namespace accel
