// A Hugging Face folder with quantized weights, as transformers and bitsandbytes write it.
#pragma once

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/api/model.h"
#include "formats/tensors/safetensors.h"
#include "models/layers/module_state.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel {

/// The parameters of a Llama of a layer of width 16, in nf4, as bitsandbytes names and shapes them.
class BitsAndBytesFolder {
 public:
  BitsAndBytesFolder(Model& model, bool is_double) {
    for (const Parameter& item : parameters_of(model)) {
      if (item.name.find("lora_") == item.name.npos) add(item, is_double);
    }
    nlohmann::json config = {{"model_type", "llama"},
                             {"architectures", {"LlamaForCausalLM"}},
                             {"vocab_size", 11},
                             {"hidden_size", 16},
                             {"num_hidden_layers", 1},
                             {"num_attention_heads", 2},
                             {"intermediate_size", 24},
                             {"max_position_embeddings", 8},
                             {"tie_word_embeddings", false},
                             {"rms_norm_eps", 1e-6}};
    config["quantization_config"] = {{"quant_method", "bitsandbytes"},
                                     {"load_in_4bit", true},
                                     {"bnb_4bit_quant_type", "nf4"},
                                     {"bnb_4bit_use_double_quant", is_double}};
    config_ = config;
    write_config();
  }

  /// Replaces a value of the quantization_config.
  void set(const char* key, const nlohmann::json& value) {
    config_["quantization_config"][key] = value;
    write_config();
  }

  std::string write(const std::string& replaced = "", const std::string& by = "") {
    std::vector<NamedArray> arrays = arrays_;
    for (const auto& [name, text] : states_) {
      std::string state = text;
      if (!replaced.empty()) state.replace(state.find(replaced), replaced.size(), by);
      arrays.push_back(
          {name, Array::of<char>(DType::kU8, {static_cast<int64_t>(state.size())}, state)});
    }
    std::ofstream out(folder_.path() + "/model.safetensors", std::ios::binary);
    write_safetensors(arrays, [&](ByteSpan bytes) {
      out.write(reinterpret_cast<const char*>(bytes.data()),
                static_cast<std::streamsize>(bytes.size()));
    });
    return folder_.path();
  }

 private:
  void write_config() { std::ofstream(folder_.path() + "/config.json") << config_.dump(); }

  void add(const Parameter& item, bool is_double) {
    const at::Tensor from = item.local.detach().contiguous();
    const DType type = from.scalar_type() == at::kByte ? DType::kU8 : DType::kF32;
    if (item.name.ends_with(".weight.shape")) {
      nlohmann::json state = {{"quant_type", "nf4"}, {"blocksize", 64}, {"dtype", "float32"}};
      state["shape"] = {from[0].item<int64_t>(), from[1].item<int64_t>()};
      if (is_double) state.update({{"nested_blocksize", 256}, {"nested_offset", offset_}});
      const std::string weight = item.name.substr(0, item.name.rfind('.'));
      states_.emplace_back(weight + ".quant_state.bitsandbytes__nf4", state.dump());
      arrays_.push_back({weight + ".quant_map", Array(DType::kF32, {16})});
      return;
    }
    if (item.name.ends_with(".nested_offset")) {
      offset_ = from.item<double>();
      return;
    }
    Array array(type, from.sizes().vec());
    std::memcpy(array.mutable_data(), from.const_data_ptr(), array.bytes());
    const bool is_codes = type == DType::kU8 && item.name.ends_with(".weight");
    if (is_codes) array = Array(type, {from.numel(), 1}, array.data(), array.owner());
    arrays_.push_back({item.name, array});
  }

  TempFolder folder_;
  nlohmann::json config_;
  std::vector<NamedArray> arrays_;
  std::vector<std::pair<std::string, std::string>> states_;
  double offset_ = 0;
};

}  // namespace accel
