// The first samples of a dataset, as the `limit` of a recipe's dataset asks for.
#pragma once

#include <memory>

#include "core/dataset.h"

namespace accel {

/// At most the first `limit` samples of `dataset`; `limit` > 0. Gives `dataset` itself when it is
/// no longer than that.
std::shared_ptr<const Dataset> first_samples(std::shared_ptr<const Dataset> dataset, int64_t limit);

}  // namespace accel
