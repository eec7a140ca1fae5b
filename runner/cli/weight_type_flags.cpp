#include "runner/cli/weight_type_flags.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "models/layers/module_state.h"
#include "runner/placement/weight_placement.h"
#include "runner/plan/number_text.h"

namespace accel {
namespace {

constexpr auto kQuantizationFlag = "--quantization";

std::vector<std::string> dtype_names() {
  std::vector<std::string> out;
  for (const auto& [value, name] : EnumNames<ComputeDtype>::kValues) out.emplace_back(name);
  return out;
}

std::optional<ComputeDtype> dtype_named(const std::string& wanted) {
  for (const auto& [value, name] : EnumNames<ComputeDtype>::kValues) {
    if (wanted == name) return value;
  }
  return std::nullopt;
}

/// "nf4", or "{type: nf4, skip_modules: ['*.down_proj']}".
void read_quantization(const std::string& words, WeightTypes& to) {
  const Node given = parse_recipe(kQuantizationFlag, "quantization: " + words);
  const Node& value = given.find("quantization")->node;
  to.section = value;
  if (value.scalar()) to.section = {Node::Map{{"type", value.where, value}}, value.where};
  Diagnostics problems;
  const Registry none;
  Reading reading{problems, none};
  to.quantization = QuantizationOptions::schema().read(to.section, reading);
  if (problems.empty() && !to.quantization.is_on()) {
    problems.error(value.where, "'--quantization' has no type", "write 'nf4', or leave it out");
  }
  problems.check();
}

}  // namespace

void add_weight_type_flags(CLI::App& verb, WeightTypeFlags& to) {
  verb.add_option(
          "--dtype", to.dtype,
          "convert the weights, and compute, in this type, as transformers' dtype; default: "
          "fp32, or mixed_precision of the run in evaluations")
      ->check(CLI::IsMember(dtype_names()));
  verb.add_option(kQuantizationFlag, to.quantization,
                  "quantize linear layers at load time: nf4, fp4, int8, fp8_e4m3 or bf16, or a "
                  "section as model.quantization, such as '{type: nf4, double_quant: true}'");
}

WeightTypes weight_types(const WeightTypeFlags& flags, const PlacementFlags& placement) {
  WeightTypes out;
  out.dtype = dtype_named(flags.dtype);
  if (!flags.quantization.empty()) read_quantization(flags.quantization, out);
  if (out.quantization.is_on() && placement.is_set()) {
    throw Error(ExitCode::kRecipe,
                "'--quantization' quantizes weights in memory, and '--device-map' and "
                "'--max-memory' place those of the model's files",
                "leave one of them out, or quantize the folder with transformers and bitsandbytes "
                "first: from_pretrained() with a 'quantization_config', then save_pretrained()");
  }
  if (out.dtype && !placement.offload.empty()) {
    throw Error(ExitCode::kRecipe,
                "'--dtype' converts weights in memory, and '--offload' reads them from a folder",
                "leave one of them out");
  }
  return out;
}

void refuse_weight_types_on_mesh(const WeightTypeFlags& flags) {
  if (!flags.is_set()) return;
  throw Error(ExitCode::kRecipe, "'--dtype' and '--quantization' convert the model of one process",
              "leave them out, or '--mesh'");
}

void print_weight_types(Model& model, const WeightTypes& types, int64_t quantized) {
  if (!types.is_set()) return;
  int64_t bytes = 0;
  for (const Parameter& item : parameters_of(model)) {
    bytes += static_cast<int64_t>(item.local.nbytes());
  }
  std::string kinds;
  if (quantized > 0) {
    kinds = text("{} linear layers in {}, others ", quantized, types.quantization.description());
  }
  std::string dtype = "as loaded";
  for (const auto& [value, name] : EnumNames<ComputeDtype>::kValues) {
    if (types.dtype == value) dtype = std::string("in ") + name;
  }
  std::cerr << text("weights: {}{}, {}\n", kinds, dtype, bytes_text(bytes));
}

}  // namespace accel
