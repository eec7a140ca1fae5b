// Collation of samples into contiguous host memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/api/dataset.h"

namespace accel {

/// A micro-batch on the host, with its own 64-byte aligned memory.
struct HostBatch {
  Array inputs;              ///< [samples, ...input of one sample], padded to the longest
  Array targets;             ///< [samples, ...target of one sample]; may be empty
  std::vector<int64_t> ids;  ///< dataset index of each sample
  Array lengths = {};        ///< i64 [samples], token counts without padding; empty: equal shapes
  Array segments = {};       ///< as `inputs`; may be empty
  int64_t padded = 0;        ///< the last `padded` samples repeat others and do not count
  int64_t micro_batch_index =
      0;  ///< index among the micro-batches of all ranks in the global batch

  /// Number of counted samples, which come first. Over all ranks, each sample of an epoch counts
  /// once.
  int64_t valid() const { return static_cast<int64_t>(ids.size()) - padded; }
};

/// Length of padded targets with a dimension: that of their inputs, or their own.
enum class TargetLength { kOfInput, kOwn };

/// Stacks `size` samples. With `padding`, lengths may differ, and samples are held until all are
/// added.
class Collator {
 public:
  explicit Collator(int64_t size, std::optional<Padding> padding = {},
                    TargetLength target_length = TargetLength::kOfInput);

  /// Adds a sample. Throws DataError if type or shape differ from the first one, or, with padding,
  /// if its parts are not sequences of these lengths.
  void add(const Sample& sample, int64_t id);
  /// The batch, after `size` samples.
  HostBatch finish() &&;

 private:
  struct Held {
    Sample sample;
    int64_t id;
  };

  void stack(const Sample& sample, int64_t id);
  void put(const char* part, const Array& value, Array& stack);
  int64_t padded_length(Array Sample::*part) const;

  int64_t size_;
  std::optional<Padding> padding_;
  TargetLength target_length_;
  std::vector<Held> held_;  // with padding only
  HostBatch batch_;
};

/// The samples `ids` (at least one) of `columns`, with the same bits as from a Collator. Reuses the
/// memory of `done` if it fits and is not shared.
HostBatch column_batch(const Columns& columns, std::vector<int64_t> ids, HostBatch done = {});

}  // namespace accel
