// Selection of fused or reference (ATen) kernels.
#pragma once

#include <utility>

#include "core/recipe/codec.h"

namespace accel {

enum class Kernels { kReference, kFused };

template <>
struct EnumNames<Kernels> {
  static constexpr std::pair<Kernels, const char*> kValues[] = {{Kernels::kReference, "reference"},
                                                                {Kernels::kFused, "fused"}};
};

/// The value of use_kernels(); initially reference.
Kernels kernels_of_process();
/// Sets the value only; use_kernels() also registers the CPU overrides.
void set_kernels_of_process(Kernels kernels);
/// The kernels of this thread's operators.
Kernels kernels();

enum class MklInstructions { kAuto, kNative };

template <>
struct EnumNames<MklInstructions> {
  static constexpr std::pair<MklInstructions, const char*> kValues[] = {
      {MklInstructions::kAuto, "auto"}, {MklInstructions::kNative, "native"}};
};

/// The value of set_mkl_instructions(); initially auto.
MklInstructions instructions_of_mkl();
/// Must precede any computation: MKL chooses its kernels once.
void set_mkl_instructions(MklInstructions instructions);
/// Whether MKL uses its kernels for Intel processors because of this program: with fused kernels
/// and `auto`, on other processors with AVX2 or AVX-512.
bool enables_intel_kernels_of_mkl();

/// While it exists, this thread's tensors have no data (fake tensors) and kernels() is the
/// reference.
class ShapesOnly {
 public:
  ShapesOnly();
  ~ShapesOnly();
  ShapesOnly(const ShapesOnly&) = delete;
  ShapesOnly& operator=(const ShapesOnly&) = delete;

 private:
  bool outer_;
};

/// Whether a ShapesOnly of this thread exists.
bool has_shapes_only();

/// Whether this thread runs with fake tensors in place of the fused kernels, so that operators
/// report the memory of the fused kernels.
bool fakes_fused();

/// Whether this thread's operators allocate as the fused kernels do: kernels() is kFused or
/// fakes_fused().
bool allocates_as_fused();

}  // namespace accel
