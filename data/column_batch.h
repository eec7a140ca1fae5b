// Batches of samples that are rows of arrays in memory, without making the samples one by one.
#pragma once

#include <cstdint>
#include <vector>

#include "data/host_batch.h"

namespace accel {

/// The samples `ids` of `columns`, one at least, bit for bit as a Collator stacks them. Takes the
/// memory of `done` where it fits and nobody else uses it.
HostBatch column_batch(const Columns& columns, std::vector<int64_t> ids, HostBatch done = {});

}  // namespace accel
