// Datasets that fetch samples from a store, ahead of their use.
#pragma once

#include <cstdint>
#include <span>

#include "core/api/dataset.h"

namespace accel {

/// Implemented by datasets whose samples may have to be fetched, and by combinations of datasets.
class ReadsAhead {
 public:
  virtual ~ReadsAhead() = default;

  /// Samples will be read in an order without locality. Called before samples_ahead().
  virtual void read_singly() const = 0;
  /// Number of samples to announce ahead; 0: the samples are on this machine, as long as the cache
  /// keeps them.
  virtual int64_t samples_ahead() const = 0;
  /// Announces samples that will be read in this order, after those announced before.
  virtual void read_ahead(std::span<const int64_t> samples) const = 0;
  /// Forgets what was announced.
  virtual void forget_ahead() const = 0;
  /// Whether the data exceed the cache, so that an order without locality fetches samples singly.
  virtual bool exceeds_cache() const = 0;
};

/// As the functions of ReadsAhead; for other datasets 0, nothing and false.
void read_singly(const Dataset& dataset);
int64_t samples_ahead(const Dataset& dataset);
void read_ahead(const Dataset& dataset, std::span<const int64_t> samples);
void forget_ahead(const Dataset& dataset);
bool exceeds_cache(const Dataset& dataset);

}  // namespace accel
