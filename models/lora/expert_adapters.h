// Adapters of experts, which PEFT converts for the fused experts of transformers 5.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/hf/hf_weights.h"
#include "models/lora/lora_options.h"

namespace accel {

/// Why PEFT 0.21 with transformers 5 does not compute what these weights of an adapter do; "" if it
/// does, or if the model, of `num_experts` in a layer, has none. `adapter`: by the model's names.
std::string peft_expert_problem(const LoraOptions& lora, const std::vector<NamedArray>& adapter,
                                const HfNames& names, int64_t num_experts);

}  // namespace accel
