// Where the CPU's tensors lie.
#pragma once

#include <cstdint>

namespace accel {

/// Blocks of fewer bytes come from the C library.
inline constexpr int64_t kLeastTensorBlock = 1 << 17;

/// From here on memory that is freed stays with this process for what it allocates next: a step
/// would otherwise give back what the next one takes again, and have each page mapped and cleared
/// anew. Large tensors lie in a range of their own, where nothing small breaks up its holes.
/// Nothing happens where the environment says how to allocate (GLIBC_TUNABLES, MALLOC_*) or the
/// second time. Where addresses are short (`ulimit -v`) nothing is kept, and threads share one
/// arena of the C library's. What cannot be had there is asked of libtorch's own allocator, whose
/// errors hold.
void keep_freed_memory();

/// Gives back what is kept and free now: to be called when less will be needed from here on.
void give_back_freed_memory();

}  // namespace accel
