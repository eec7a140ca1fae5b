// Assignment of batch parts to the inputs of a program.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "core/api/batch.h"
#include "core/api/data_shape.h"
#include "core/recipe/codec.h"
#include "formats/program/pt2.h"

namespace accel {

enum class BatchPart { kInputs, kMask, kLengths, kSegments };

template <>
struct EnumNames<BatchPart> {
  static constexpr std::pair<BatchPart, const char*> kValues[] = {
      {BatchPart::kInputs, "inputs"},
      {BatchPart::kMask, "mask"},
      {BatchPart::kLengths, "lengths"},
      {BatchPart::kSegments, "segments"}};
};

/// An input of a program.
struct ProgramInput {
  std::string name;
  at::ScalarType type;
  std::vector<Pt2Size> sizes;
};

/// The part for each input: given by the recipe, else by the input's name; the first input defaults
/// to the batch's inputs. Throws Error (kRecipe) for an input without a part, and for a name in
/// `given` that the program lacks.
std::vector<BatchPart> parts_for(const std::vector<ProgramInput>& wanted,
                                 const std::map<std::string, BatchPart>& given);

/// Throws Error (kRecipe) unless batches of such data fit the program's input.
void check_program_input(const ProgramInput& wanted, BatchPart part, const DataShape& data);

/// The tensor for an input. For samples of equal length, the mask is all ones and the lengths are
/// equal.
at::Tensor part_of(const Batch& batch, BatchPart part, const ProgramInput& wanted);

/// The default task by the targets, and for tokens by the presence of masked ones.
const char* task_of_data(const DataShape& data);

}  // namespace accel
