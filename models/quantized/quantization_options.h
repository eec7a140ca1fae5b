// The `quantization` section of a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/recipe/registry.h"
#include "kernels/quantized_weight.h"

namespace accel {

class HfConfig;
struct LoraOptions;

enum class QuantizationType { kNone, kNf4, kFp4, kInt8, kFp8E4m3, kBf16 };

template <>
struct EnumNames<QuantizationType> {
  static constexpr std::pair<QuantizationType, const char*> kValues[] = {
      {QuantizationType::kNone, "none"},        {QuantizationType::kNf4, "nf4"},
      {QuantizationType::kFp4, "fp4"},          {QuantizationType::kInt8, "int8"},
      {QuantizationType::kFp8E4m3, "fp8_e4m3"}, {QuantizationType::kBf16, "bf16"}};
};

enum class ComputeDtype { kFp32, kBf16, kFp16 };

template <>
struct EnumNames<ComputeDtype> {
  static constexpr std::pair<ComputeDtype, const char*> kValues[] = {
      {ComputeDtype::kFp32, "fp32"}, {ComputeDtype::kBf16, "bf16"}, {ComputeDtype::kFp16, "fp16"}};
};

at::ScalarType type_of(ComputeDtype dtype);

/// Meanings are those of transformers' BitsAndBytesConfig.
struct QuantizationOptions {
  QuantizationType type = QuantizationType::kNone;
  bool double_quant = false;
  Auto<ComputeDtype> compute_dtype;
  Auto<std::vector<std::string>> skip_modules;
  bool head = false;  ///< a language model's too

  static Schema<QuantizationOptions> schema();

  bool is_on() const { return type != QuantizationType::kNone; }
  /// Of nf4, fp4 and int8.
  WeightCode code() const;
  /// The type of layerwise casting; none for codes with scales.
  std::optional<at::ScalarType> storage() const;
  /// "nf4 with 'double_quant'"
  std::string description() const;
};

/// The `quantization_config` of a folder; off without one. Reports to `config` what is not
/// supported.
QuantizationOptions quantization_in(HfConfig& config);

/// Reports quantization that cannot act with the other options of the model's section `given`.
void check_quantization(const QuantizationOptions& quantization, const LoraOptions& lora,
                        const Node& given, Reading& reading);

/// The options of a resolved model; off without any.
QuantizationOptions quantization_of(const Node& model_options);

}  // namespace accel
