// Caching allocator: freed memory is kept for the next step instead of being returned to the OS.
#pragma once

namespace accel {

/// Installs the allocator: returning freed pages would map and clear them again in every step.
/// Large tensors are allocated from a separate address range, which small blocks cannot fragment.
/// Has no effect if the environment configures the C library's allocator (GLIBC_TUNABLES, MALLOC_*)
/// or on a second call. Under an address space limit (`ulimit -v`) nothing is cached, and threads
/// share one arena of the C library. Requests that do not fit go to libtorch's allocator, which
/// also reports errors.
void use_caching_allocator();

/// Returns free memory to the OS; for phases after which less memory is needed.
void give_back_freed_memory();

}  // namespace accel
