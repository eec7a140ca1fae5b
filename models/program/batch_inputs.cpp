#include "models/program/batch_inputs.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <limits>

#include "core/base/error.h"
#include "core/base/text.h"
#include "models/layers/sizes.h"

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
  throw Error(ExitCode::kRecipe,
              text("the program requires {} of {} for '{}', but a sample of the data is {} {}",
                   shown(wanted.sizes), c10::toString(wanted.type), wanted.name,
                   name_of(data.input_type), to_string(data.input)));
}

}  // namespace

std::vector<BatchPart> parts_for(const std::vector<ProgramInput>& wanted,
                                 const std::map<std::string, BatchPart>& given) {
  std::vector<BatchPart> out;
  std::vector<std::string> names;
  for (const ProgramInput& input : wanted) {
    names.push_back(input.name);
    const auto assigned = given.find(input.name);
    const auto known = std::find_if(kKnownNames.begin(), kKnownNames.end(),
                                    [&](const auto& pair) { return pair.first == input.name; });
    if (assigned != given.end()) {
      out.push_back(assigned->second);
    } else if (known != kKnownNames.end()) {
      out.push_back(known->second);
    } else if (out.empty()) {
      out.push_back(BatchPart::kInputs);
    } else {
      throw Error(
          ExitCode::kRecipe,
          text("the program has the input '{}', to which no batch part is assigned", input.name),
          text("assign it in 'inputs', such as {{}: mask}", input.name));
    }
  }
  for (const auto& [name, part] : given) {
    const bool known = std::any_of(wanted.begin(), wanted.end(),
                                   [&](const ProgramInput& input) { return input.name == name; });
    if (!known) {
      throw Error(ExitCode::kRecipe, text("'inputs' names '{}', but the program has {}", name,
                                          (names.empty() ? "nothing" : quoted_list(names))));
    }
  }
  return out;
}

void check_program_input(const ProgramInput& wanted, BatchPart part, const DataShape& data) {
  if (wanted.sizes.empty()) {
    throw Error(ExitCode::kRecipe,
                text("the program's input '{}' is a scalar, but batches are tensors", wanted.name));
  }
  if (wanted.sizes[0].least == wanted.sizes[0].most) {
    throw Error(ExitCode::kRecipe,
                text("the program requires batches of exactly {} for '{}', and the last one of an "
                     "epoch may be shorter",
                     wanted.sizes[0].most, wanted.name),
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
      throw Error(
          ExitCode::kRecipe,
          text(
              "the program requires sequences of exactly {} for '{}', but lengths in the data vary",
              size.most, wanted.name),
          "export it for any length, or pad the data to one");
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
