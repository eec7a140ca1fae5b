// Samples stacked into one block of host memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/dataset.h"

namespace accel {

/// A micro-batch on the host. Its memory is its own, 64-byte aligned.
struct HostBatch {
  Array inputs;              ///< [samples, ...input of one sample]; the longest's where they vary
  Array targets;             ///< [samples, ...target of one sample]; empty when samples have none
  std::vector<int64_t> ids;  ///< position of each sample in its dataset
  Array lengths = {};   ///< i64 [samples], tokens of each before the fill; empty: all of one shape
  Array segments = {};  ///< like `inputs`; empty when samples have none
  int64_t padded = 0;   ///< of its samples, the last so many repeat what counts elsewhere
  int64_t part = 0;     ///< its number among the micro-batches of all ranks in the window

  /// Samples, from the front, that count: over all ranks each of an epoch's samples does once.
  int64_t valid() const { return static_cast<int64_t>(ids.size()) - padded; }
};

/// Stacks `size` samples that come one at a time. With `padding` they may differ in length, and are
/// held until all are in.
class Collator {
 public:
  explicit Collator(int64_t size, std::optional<Padding> padding = {});

  /// Takes one sample. Throws DataError when its type or shape is not that of the first, or, with
  /// padding, when its parts are not sequences of one length.
  void add(const Sample& sample, int64_t id);
  /// The batch, once `size` samples are in.
  HostBatch finish() &&;

 private:
  struct Held {
    Sample sample;
    int64_t id;
  };

  void stack(const Sample& sample, int64_t id);
  void put(const char* part, const Array& value, Array& stack);
  int64_t padded_length() const;

  int64_t size_;
  std::optional<Padding> padding_;
  std::vector<Held> held_;  // only with padding
  HostBatch batch_;
};

}  // namespace accel
