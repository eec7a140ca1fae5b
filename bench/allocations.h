// Heap allocations of a thread, counted by whose code asks. Linking allocations.cpp replaces
// operator new in the whole process.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace accel {

/// Where memory was asked for: return addresses from the innermost on, those of the C and C++
/// libraries left out.
using AllocationSite = std::vector<void*>;

struct Allocations {
  int64_t all = 0;  ///< calls of operator new, whoever made them
  int64_t own = 0;  ///< of those, by code of the executable: not from within a library it calls
  std::map<AllocationSite, int64_t> sites;  ///< of the own ones, how often
};

/// Counts what this thread allocates while it lives; not to be nested.
class CountAllocations {
 public:
  explicit CountAllocations(Allocations& into);
  ~CountAllocations();
  CountAllocations(const CountAllocations&) = delete;
  CountAllocations& operator=(const CountAllocations&) = delete;
};

}  // namespace accel
