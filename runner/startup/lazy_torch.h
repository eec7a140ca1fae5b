// Lazy loading of libtorch, which takes half a second. The executable starts with stub libraries
// that only define the symbols it refers to: enough for every verb that does not compute. See
// cmake/StubLibraries.cmake.
#pragma once

#include <string>
#include <vector>

#include "core/base/library_pages.h"

namespace accel {

/// Whether libtorch itself is loaded. If so, restores the user's environment: removes the search
/// path of libtorch.
bool torch_is_there();

/// Unmaps pages of libtorch that were needed up to now, with those of the other libraries: after
/// loading, relocation and symbol tables; after its initializers, these. Does nothing without
/// libtorch.
void release_torch_pages(LibraryPages pages);

/// Re-executes this program with libtorch; returns if it is already loaded. Call it before any use
/// of tensors and before any side effect. Throws Error without libtorch.
void require_torch(const std::vector<std::string>& argv);

}  // namespace accel
