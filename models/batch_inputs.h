// Which part of a batch each input of a program takes, for models whose code is not ours.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "core/batch.h"
#include "core/codec.h"
#include "core/data_shape.h"
#include "runner/formats/pt2.h"

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

/// What a program asks for.
struct ProgramInput {
  std::string name;
  at::ScalarType type;
  std::vector<Pt2Size> sizes;
};

/// One part for each input: what the recipe says, else what the name says, and for the first input
/// the batch's inputs. Throws Error (kRecipe) for an input that is left, and for a name in `given`
/// that the program does not have.
std::vector<BatchPart> parts_for(const std::vector<ProgramInput>& wanted,
                                 const std::map<std::string, BatchPart>& given);

/// Throws Error (kRecipe) unless batches of such data fit what the program was made for.
void check_program_input(const ProgramInput& wanted, BatchPart part, const DataShape& data);

/// The tensor for an input. Of samples of one length, a mask is all ones and lengths are that one.
at::Tensor part_of(const Batch& batch, BatchPart part, const ProgramInput& wanted);

/// The task that data asks for when the model does not say: by its targets, and for tokens whether
/// some are there to be guessed.
const char* task_of_data(const DataShape& data);

}  // namespace accel
