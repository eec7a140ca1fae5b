// Which kernels compute where there are two: ATen's, or those of this folder.
//
// An operator here has one function for its callers, a kernel for each kind of device beside it
// (gelu_cpu.h), and ATen's operator as its reference, which also computes whatever the kernels do
// not take: other devices, types and layouts.
#pragma once

#include <utility>

#include "core/codec.h"

namespace accel {

enum class Kernels { kReference, kFused };

template <>
struct EnumNames<Kernels> {
  static constexpr std::pair<Kernels, const char*> kValues[] = {{Kernels::kReference, "reference"},
                                                                {Kernels::kFused, "fused"}};
};

/// For all threads of this process, until it is called again; at first reference.
void use_kernels(Kernels kernels);
/// Those of use_kernels(), whatever a thread wants for a while.
Kernels kernels_of_process();
/// What this thread's operators are to take.
Kernels kernels();

/// While it lives this thread takes ATen's.
class ReferenceKernels {
 public:
  ReferenceKernels();
  ~ReferenceKernels();
  ReferenceKernels(const ReferenceKernels&) = delete;
  ReferenceKernels& operator=(const ReferenceKernels&) = delete;

 private:
  bool outer_;
};

/// While it lives this thread's tensors have shapes and no contents: kernels() are the reference.
class ShapesOnly {
 public:
  ShapesOnly();
  ~ShapesOnly();
  ShapesOnly(const ShapesOnly&) = delete;
  ShapesOnly& operator=(const ShapesOnly&) = delete;

 private:
  bool outer_;
};

/// Whether there is one in this thread, where fused kernels would be taken if there were contents:
/// what these take in memory is to be counted.
bool stands_for_fused();

/// Whether this thread's operators are to allocate what the fused ones do: their kernels() are
/// these, or it stands_for_fused() and no tensor has contents to look at.
bool allocates_as_fused();

}  // namespace accel
