// Random numbers of one rank out of several that share a stream.
#pragma once

#include <cstdint>
#include <memory>

#include "core/api/tensor_parallel.h"

namespace accel {

/// A stream of this rank until the result ends: it follows from the stream that the ranks share,
/// which each of them advances equally.
std::unique_ptr<RandomScope> make_own_random_stream(int64_t rank, at::Device device);

}  // namespace accel
