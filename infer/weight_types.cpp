#include "infer/weight_types.h"

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "models/hf/hf_family.h"
#include "models/quantized/convert_parameters.h"
#include "models/quantized/quantize_model.h"

namespace accel {
namespace {

std::string type_in(const Node& resolved) {
  return resolved.find("type")->node.scalar()->text;
}

bool has_quantization(const std::string& component) {
  const std::vector<FieldInfo> options = HfFamily::of_component(component)->options();
  return std::any_of(options.begin(), options.end(),
                     [](const FieldInfo& field) { return field.name == "quantization"; });
}

std::vector<std::string> quantizable_components() {
  std::vector<std::string> names = HfFamily::components();
  std::erase_if(names, [](const std::string& name) { return !has_quantization(name); });
  return names;
}

/// Throws for a model that the flags do not support.
void check_component(const WeightTypes& types, const std::string& component, const HfNames& names) {
  if (types.quantization.is_on() && !has_quantization(component)) {
    throw Error(ExitCode::kRecipe,
                text("'--quantization' supports models of type {}, and this one is '{}'",
                     quoted_list(quantizable_components()), component),
                "leave it out");
  }
  if (types.dtype == ComputeDtype::kFp16 && !names.unquantized.empty()) {
    throw Error(ExitCode::kRecipe,
                text("'--dtype fp16' does not support '{}', whose layers '{}' overflow in it",
                     component, names.unquantized),
                "give '--dtype bf16'");
  }
}

/// Throws where `types` contradicts the quantization of the loaded weights.
void check_loaded(const WeightTypes& types, const QuantizationOptions& loaded) {
  const QuantizationOptions& wanted = types.quantization;
  if (wanted.type != loaded.type || wanted.double_quant != loaded.double_quant) {
    throw Error(ExitCode::kRecipe,
                text("'--quantization' is {}, and the model's weights are quantized as {} already",
                     wanted.description(), loaded.description()),
                "leave it out, or name a model with unquantized weights");
  }
  if (!wanted.skip_modules && !wanted.compute_dtype && !wanted.head) return;
  throw Error(ExitCode::kRecipe,
              text("'{}' of '--quantization' cannot act: the model's weights are quantized already",
                   wanted.skip_modules ? "skip_modules"
                   : wanted.head       ? "head"
                                       : "compute_dtype"),
              "leave it out, or name a model with unquantized weights");
}

}  // namespace

std::optional<at::ScalarType> WeightTypes::scalar_type() const {
  if (!dtype) return std::nullopt;
  return type_of(*dtype);
}

int64_t convert_weights(Model& model, const WeightTypes& types, const Node& resolved) {
  if (!types.is_set()) return 0;
  const std::string component = type_in(resolved);
  const HfFamily::Table* family = HfFamily::of_component(component);
  if (!family) {
    throw Error(ExitCode::kRecipe,
                text("'--dtype' and '--quantization' support models of type {}, and this one is "
                     "'{}'",
                     quoted_list(HfFamily::components()), component),
                "leave them out");
  }
  const HfNames names = family->names(detail::without_type(resolved));
  check_component(types, component, names);
  int64_t quantized = 0;
  if (types.quantization.is_on()) {
    const QuantizationOptions loaded = quantization_of(resolved);
    if (loaded.is_on()) {
      check_loaded(types, loaded);
    } else {
      quantized =
          quantize_layers(model, types.quantization, names, types.section, types.scalar_type());
    }
  }
  convert_parameters(model, types.scalar_type());
  return quantized;
}

int64_t convert_weights(TrainedModel& trained, const WeightTypes& types) {
  if (types.dtype) {
    trained.recipe.accelerator.mixed_precision =
        types.dtype == ComputeDtype::kFp32   ? MixedPrecision::kNo
        : types.dtype == ComputeDtype::kBf16 ? MixedPrecision::kBf16
                                             : MixedPrecision::kFp16;
  }
  return convert_weights(*trained.model, types, trained.recipe.model.resolved);
}

}  // namespace accel
