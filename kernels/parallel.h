// Loops divided among the threads that PyTorch computes with.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace accel {

/// Calls work(begin, end) for parts of 0 to `count`, in at::get_num_threads() threads at most, of
/// which at::get_thread_num() tells one from another; returns when all are done. Parts begin at
/// multiples of `grain`, whatever the number of threads, and what they do must not depend on which
/// of them one call has: then no bit depends on the number of threads.
void for_each_part(int64_t count, int64_t grain, c10::function_ref<void(int64_t, int64_t)> work);

}  // namespace accel
