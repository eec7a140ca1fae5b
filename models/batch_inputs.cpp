#include "models/batch_inputs.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <limits>

#include "core/error.h"
#include "models/sizes.h"

namespace accel {
namespace {

constexpr std::array kKnownNames = {
    std::pair("attention_mask", BatchPart::kMask), std::pair("mask", BatchPart::kMask),
    std::pair("lengths", BatchPart::kLengths), std::pair("token_type_ids", BatchPart::kSegments)};

/// "[any, 3, 32, 32]"
std::string shown(const std::vector<Pt2Size>& sizes) {
  std::string out;
  for (const Pt2Size& size : sizes) {
    out += out.empty() ? "[" : ", ";
    if (size.least == size.most) {
      out += std::to_string(size.least);
    } else if (size.most == std::numeric_limits<int64_t>::max()) {
      out += "any";
    } else {
      out += std::to_string(size.least).append(" to ").append(std::to_string(size.most));
    }
  }
  return out.empty() ? "[]" : out.append("]");
}

at::ScalarType type_of(DType type) {
  if (type == DType::kI64) return at::kLong;
  if (type == DType::kF64) return at::kDouble;
  return type == DType::kF32 ? at::kFloat : at::kByte;
}

[[noreturn]] void misfit(const ProgramInput& wanted, const DataShape& data) {
  throw Error(ExitCode::kRecipe, "the program takes " + shown(wanted.sizes) + " of " +
                                     c10::toString(wanted.type) + " for '" + wanted.name +
                                     "', but a sample of the data is " + name_of(data.input_type) +
                                     " " + to_string(data.input));
}

}  // namespace

std::vector<BatchPart> parts_for(const std::vector<ProgramInput>& wanted,
                                 const std::map<std::string, BatchPart>& given) {
  std::vector<BatchPart> out;
  std::string names;
  for (const ProgramInput& input : wanted) {
    names += (names.empty() ? "'" : ", '") + input.name + "'";
    const auto told = given.find(input.name);
    const auto known = std::find_if(kKnownNames.begin(), kKnownNames.end(),
                                    [&](const auto& pair) { return pair.first == input.name; });
    if (told != given.end()) {
      out.push_back(told->second);
    } else if (known != kKnownNames.end()) {
      out.push_back(known->second);
    } else if (out.empty()) {
      out.push_back(BatchPart::kInputs);
    } else {
      throw Error(
          ExitCode::kRecipe,
          "the program takes '" + input.name + "', and nothing says what of a batch that is",
          "say it in 'inputs', such as {" + input.name + ": mask}");
    }
  }
  for (const auto& [name, part] : given) {
    const bool known = std::any_of(wanted.begin(), wanted.end(),
                                   [&](const ProgramInput& input) { return input.name == name; });
    if (!known) {
      throw Error(ExitCode::kRecipe, "'inputs' names '" + name + "', but the program takes " +
                                         (names.empty() ? "nothing" : names));
    }
  }
  return out;
}

void check_program_input(const ProgramInput& wanted, BatchPart part, const DataShape& data) {
  if (wanted.sizes.empty()) {
    throw Error(ExitCode::kRecipe, "the program takes a number for '" + wanted.name +
                                       "', but what it is given is a batch");
  }
  if (wanted.sizes[0].least == wanted.sizes[0].most) {
    throw Error(ExitCode::kRecipe,
                "the program takes batches of exactly " + std::to_string(wanted.sizes[0].most) +
                    " for '" + wanted.name + "', and the last one of an epoch may be shorter",
                "export it for any batch, as 'tools/export_model.py' does");
  }
  if (part != BatchPart::kInputs || data.input.empty()) return;
  if (wanted.sizes.size() != data.input.size() + 1 || type_of(data.input_type) != wanted.type) {
    misfit(wanted, data);
  }
  for (size_t i = 0; i < data.input.size(); ++i) {
    const Pt2Size& size = wanted.sizes[i + 1];
    const bool varies = data.padding && i == 0;
    if (data.input[i] > size.most || (!varies && data.input[i] < size.least)) misfit(wanted, data);
    if (varies && size.least == size.most) {
      throw Error(ExitCode::kRecipe,
                  "the program takes sequences of exactly " + std::to_string(size.most) + " for '" +
                      wanted.name + "', but those of the data differ in length",
                  "export it for any length, or fill the data to one");
    }
  }
}

at::Tensor part_of(const Batch& batch, BatchPart part, const ProgramInput& wanted) {
  const at::Tensor& inputs = batch.inputs;
  const auto made = at::dtype(wanted.type).device(inputs.device());
  switch (part) {
    case BatchPart::kInputs:
      return inputs;
    case BatchPart::kSegments:
      return batch.segments.defined() ? batch.segments : at::zeros_like(inputs);
    case BatchPart::kLengths:
      return batch.lengths.defined() ? batch.lengths
                                     : at::full({inputs.size(0)}, inputs.size(1), made);
    default:
      break;
  }
  if (!batch.lengths.defined()) {
    return at::ones({inputs.size(0), inputs.size(1)}, made);
  }
  const at::Tensor places = at::arange(inputs.size(1), batch.lengths.options());
  return places.unsqueeze(0).lt(batch.lengths.unsqueeze(1)).to(wanted.type);
}

const char* task_of_data(const DataShape& data) {
  if (has_numeric_targets(data)) return "regression";
  const bool one_each = data.vocab > 0 && data.target == data.input;
  if (!one_each) return "classification";
  return data.mask_token ? "masked_lm" : "causal_lm";
}

}  // namespace accel
