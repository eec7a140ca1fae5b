// Resident pages of the executable and its libraries.
#pragma once

namespace accel {

enum class LibraryPages {
  kReadOnly,  ///< of segments without write permission: code and constants
  kAll,       ///< also unwritten pages of writable segments; for a process with a single thread
};

/// Unmaps resident pages of the executable and its libraries that were read but never written, such
/// as relocation tables after loading and code that runs only at start. They stay in the page
/// cache, and an access maps them again. Written pages, such as those with breakpoints, are kept.
/// Does nothing without /proc/self/pagemap.
void release_library_pages(LibraryPages pages);

}  // namespace accel
