// Parallel loops in PyTorch's thread pool.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace accel {

/// Calls work(begin, end) for ranges that cover 0 to `count`, in at most at::get_num_threads()
/// threads, numbered by at::get_thread_num(). Ranges begin at multiples of `grain` for any number
/// of threads, so results do not depend on that number as long as `work` does not depend on the
/// assignment of ranges to calls.
void for_each_part(int64_t count, int64_t grain, c10::function_ref<void(int64_t, int64_t)> work);

/// Rows of `width` numbers that one call of for_each_part() takes: enough work for a thread, in at
/// most 16 parts, which may have sums of their own.
int64_t rows_of_part(int64_t rows, int64_t width);

}  // namespace accel
