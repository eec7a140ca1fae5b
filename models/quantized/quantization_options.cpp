#include "models/quantized/quantization_options.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/base/text.h"
#include "models/hf/hf_config.h"
#include "models/lora/lora_options.h"

namespace accel {
namespace {

using nlohmann::json;

std::string type_name(QuantizationType type) {
  for (const auto& [value, name] : EnumNames<QuantizationType>::kValues) {
    if (value == type) return name;
  }
  throw std::logic_error("unknown QuantizationType");
}

void check_type(const QuantizationOptions& options, const Node& node, Reading& reading) {
  const Node::Entry* is_double = node.find("double_quant");
  const bool is_4bit =
      options.type == QuantizationType::kNf4 || options.type == QuantizationType::kFp4;
  if (options.is_on() && !is_4bit && options.double_quant) {
    reading.problems.error(
        is_double ? is_double->node.where : node.where,
        text("'double_quant' quantizes the scales of 4-bit blocks, and {} has none",
             type_name(options.type)),
        "leave it out, or write 'type: nf4'");
  }
  if (options.is_on() ||
      (!options.double_quant && !options.compute_dtype && !options.skip_modules && !options.head)) {
    return;
  }
  reading.problems.error(node.where, "'quantization' has no 'type'",
                         "add 'type: nf4', or leave the section out");
}

/// The value of a key of a quantization_config; the fallback if it is missing or null.
template <class T>
T value_of(const json& section, const char* key, const T& fallback) {
  const auto found = section.find(key);
  return found == section.end() || found->is_null() ? fallback : found->get<T>();
}

Auto<ComputeDtype> compute_dtype_in(const json& section) {
  const auto name = value_of<std::string>(section, "bnb_4bit_compute_dtype", "float32");
  if (name == "bfloat16") return {ComputeDtype::kBf16};
  if (name == "float16") return {ComputeDtype::kFp16};
  return {ComputeDtype::kFp32};
}

}  // namespace

Schema<QuantizationOptions> QuantizationOptions::schema() {
  return Schema<QuantizationOptions>()
      .field(
          "type", &QuantizationOptions::type,
          "nf4 and fp4: 4 bits in blocks of 64 with a scale; nf4 has the smaller error for "
          "trained weights. int8: 8 bits with a scale per row, twice the memory and a tenth of "
          "the error. fp8_e4m3 and bf16: layerwise casting, the weights rounded to this type and "
          "cast to that of each product.")
      .on_resume(Change::kImpossible)
      .hint_for({"bnb_4bit_quant_type", "quant_type", "quant_method"})
      .hint_for({"load_in_4bit"}, "true>nf4|{}")
      .hint_for({"load_in_8bit"}, "true>int8|{}")
      .field("double_quant", &QuantizationOptions::double_quant,
             "Quantize the scales of blocks to 8 bits too: 4.13 instead of 4.5 bits per weight, "
             "with a slightly larger error.")
      .on_resume(Change::kImpossible)
      .hint_for({"bnb_4bit_use_double_quant", "use_bnb_nested_quant", "double_quantization",
                 "compress_statistics"})
      .field("compute_dtype", &QuantizationOptions::compute_dtype,
             "Type of the products with dequantized weights; auto: that of mixed precision.")
      .hint_for({"bnb_4bit_compute_dtype"})
      .field("skip_modules", &QuantizationOptions::skip_modules,
             "Patterns of linear layers that stay unquantized, such as '*.down_proj'; embeddings "
             "always do, heads unless 'head' is set.")
      .on_resume(Change::kImpossible)
      .hint_for({"llm_int8_skip_modules", "modules_to_not_convert", "keep_in_fp32_modules"})
      .field(
          "head", &QuantizationOptions::head,
          "Quantize a language model's head too, as llama.cpp does and transformers with an empty "
          "'llm_int8_skip_modules': faster generation of few texts, with a larger error of the "
          "logits.")
      .on_resume(Change::kImpossible)
      .check(&check_type);
}

WeightCode QuantizationOptions::code() const {
  return type == QuantizationType::kNf4   ? WeightCode::kNf4
         : type == QuantizationType::kFp4 ? WeightCode::kFp4
                                          : WeightCode::kInt8;
}

std::optional<at::ScalarType> QuantizationOptions::storage() const {
  if (type == QuantizationType::kFp8E4m3) return at::kFloat8_e4m3fn;
  if (type == QuantizationType::kBf16) return at::kBFloat16;
  return std::nullopt;
}

std::string QuantizationOptions::description() const {
  return type_name(type) + (double_quant ? " with 'double_quant'" : "");
}

at::ScalarType type_of(ComputeDtype dtype) {
  if (dtype == ComputeDtype::kFp32) return at::kFloat;
  return dtype == ComputeDtype::kBf16 ? at::kBFloat16 : at::kHalf;
}

QuantizationOptions quantization_in(HfConfig& config) {
  QuantizationOptions out;
  config.ignore({"quantization_config"});
  if (!config.has("quantization_config")) return out;
  const json& section = config.values().at("quantization_config");
  const auto refuse = [&](const std::string& what) {
    config.refuse(text("'{}' has a 'quantization_config' with {}", config.path(), what));
  };
  try {
    const bool in_4bit = value_of(section, "load_in_4bit", false);
    const bool is_of_bits = in_4bit || value_of(section, "load_in_8bit", false);
    const auto method =
        value_of<std::string>(section, "quant_method", is_of_bits ? "bitsandbytes" : "none");
    if (method != "bitsandbytes") {
      refuse(text("the method '{}', and only that of 'bitsandbytes' is read", method));
      return out;
    }
    const auto storage = value_of<std::string>(section, "bnb_4bit_quant_storage", "uint8");
    if (storage != "uint8") refuse(text("the storage '{}', and only 'uint8' is read", storage));
    const auto type = value_of<std::string>(section, "bnb_4bit_quant_type", "fp4");
    out.type = !in_4bit        ? QuantizationType::kInt8
               : type == "nf4" ? QuantizationType::kNf4
                               : QuantizationType::kFp4;
    out.double_quant = in_4bit && value_of(section, "bnb_4bit_use_double_quant", false);
    if (in_4bit) out.compute_dtype = compute_dtype_in(section);
  } catch (const json::exception& error) {
    refuse("a value of another type");
  }
  return out;
}

void check_quantization(const QuantizationOptions& quantization, const LoraOptions& lora,
                        const Node& given, Reading& reading) {
  if (!quantization.is_on()) return;
  const Node::Entry* section = given.find("quantization");
  if (section && lora.rank == 0) {
    reading.problems.error(
        section->where, "quantized weights are frozen, and there is no adapter to train",
        "add 'lora: {rank: 8}', or leave 'quantization' out to train the weights");
  }
  if (lora.init == LoraInit::kPissa || lora.init == LoraInit::kOlora) {
    const Node::Entry* of_lora = given.find("lora");
    const Node::Entry* init = of_lora ? of_lora->node.find("init") : nullptr;
    reading.problems.error(
        init ? init->node.where : given.where,
        "'lora.init' pissa and olora change the base weights, which are quantized here",
        "write 'init: default', or leave 'quantization' out");
  }
}

QuantizationOptions quantization_of(const Node& model_options) {
  const Node::Entry* entry = model_options.map() ? model_options.find("quantization") : nullptr;
  if (!entry) return {};
  Diagnostics problems;
  const Registry none;
  Reading reading{problems, none};
  const QuantizationOptions out = QuantizationOptions::schema().read(entry->node, reading);
  problems.check();
  return out;
}

}  // namespace accel
