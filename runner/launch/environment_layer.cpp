#include "runner/launch/environment_layer.h"

#include <unistd.h>

#include <algorithm>
#include <memory>

#include "runner/launch/accelerate_words.h"

namespace accel {
namespace {

using Effect = ForeignWord::Effect;

constexpr std::string_view kPrefix = "ACCELERATE_";
constexpr std::string_view kLogReason = "accel-run has no levels of logging";
constexpr std::string_view kPythonReason = "it is about Python's libraries";

constexpr ForeignWord kVariables[] = {
    {"MIXED_PRECISION", Effect::kPrecision, "accelerator.mixed_precision"},
    {"USE_CPU", Effect::kTurnsOn, "accelerator.device=cpu"},
    {"DEBUG_MODE", Effect::kTurnsOn, "accelerator.debug=collectives"},
    {"TORCH_DEVICE", Effect::kSets, "accelerator.device"},
    {"GRADIENT_ACCUMULATION_STEPS", Effect::kSets, "train.gradient_accumulation_steps", "auto"},
    {"GRADIENT_CLIPPING", Effect::kSets, "train.max_grad_norm", "auto none"},
    {"CPU_AFFINITY", Effect::kRefused, reasons::kAffinity, kOffWords, "unset it"},
    {"DOWNCAST_BF16", Effect::kRefused, reasons::kTpu, kOffWords, "unset it"},
    {"IN_TPU_POD", Effect::kRefused, reasons::kTpu, kOffWords, "unset it"},
    {"USE_DEEPSPEED", Effect::kRefused, reasons::kDeepSpeed, kOffWords, "unset it"},
    {"USE_FSDP", Effect::kRefused, reasons::kSplit, kOffWords, "unset it"},
    {"USE_MEGATRON_LM", Effect::kRefused, reasons::kMegatron, kOffWords, "unset it"},
    {"USE_PARALLELISM_CONFIG", Effect::kRefused, reasons::kSplit, kOffWords, "unset it"},
    {"USE_SAGEMAKER", Effect::kRefused, reasons::kSageMaker, kOffWords, "unset it"},
    {"DYNAMO_BACKEND", Effect::kRefused, reasons::kCompile, kOffWords, "unset it"},
    {"FP8_BACKEND", Effect::kRefused, reasons::kFp8, kOffWords, "unset it"},
    {"LOG_LEVEL", Effect::kIdle, kLogReason},
    {"ENABLE_RICH", Effect::kIdle, kPythonReason, kOffWords},
    {"BYPASS_DEVICE_MAP", Effect::kIdle, kPythonReason, kOffWords},
    {"ALLOW_CP_STANDALONE", Effect::kIdle, reasons::kSplit, kOffWords},
    {"INIT_INCLUDE_BUFFERS", Effect::kIdle, kPythonReason, kOffWords},
    {"DEBUG_RDV_FILE", Effect::kIdle, reasons::kRendezvous},
    {"DYNAMO_MODE", Effect::kDetail},
    {"DYNAMO_USE_FULLGRAPH", Effect::kDetail},
    {"DYNAMO_USE_DYNAMIC", Effect::kDetail},
    {"DYNAMO_USE_REGIONAL_COMPILATION", Effect::kDetail},
    {"FP8_MARGIN", Effect::kDetail},
    {"FP8_INTERVAL", Effect::kDetail},
    {"FP8_FORMAT", Effect::kDetail},
    {"FP8_AMAX_HISTORY_LEN", Effect::kDetail},
    {"FP8_AMAX_COMPUTE_ALGO", Effect::kDetail},
    {"FP8_OVERRIDE_FPROP", Effect::kDetail},
    {"FP8_OVERRIDE_DGRAD", Effect::kDetail},
    {"FP8_OVERRIDE_WGRAD", Effect::kDetail},
    {"FP8_USE_AUTOCAST_DURING_EVAL", Effect::kDetail},
    {"FP8_USE_MXFP8_BLOCK_SCALING", Effect::kDetail},
    {"FP8_OPT_LEVEL", Effect::kDetail},
    {"FP8_PAD_INNER_DIM", Effect::kDetail},
    {"FP8_ENABLE_FSDP_FLOAT8_ALL_GATHER", Effect::kDetail},
    {"DEEPSPEED_ZERO_STAGE", Effect::kDetail},
    {"DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", Effect::kDetail},
    {"DEEPSPEED_OFFLOAD_PARAM_DEVICE", Effect::kDetail},
    {"DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH", Effect::kDetail},
    {"DEEPSPEED_OFFLOAD_PARAM_NVME_PATH", Effect::kDetail},
    {"DEEPSPEED_ZERO3_INIT", Effect::kDetail},
    {"DEEPSPEED_ZERO3_SAVE_16BIT_MODEL", Effect::kDetail},
    {"DEEPSPEED_CONFIG_FILE", Effect::kDetail},
    {"DEEPSPEED_MOE_LAYER_CLS_NAMES", Effect::kDetail},
    {"CONFIG_DS_FIELDS", Effect::kDetail},
    {"SAGEMAKER_DISTRIBUTED_TYPE", Effect::kDetail},
};

/// The variable's value, with a place that shows all of the variable.
Node value_of(const std::string& name, const std::string& value) {
  const auto source = std::make_shared<const Source>(
      Source{name, name + "=" + value, Source::Kind::kEnvironment, 0});
  return scalar_node(value, false, {source, 1, static_cast<int>(name.size()) + 2});
}

std::string unknown_text(const std::string& name) {
  const std::string near = closest(name.substr(kPrefix.size()), names_of(kVariables));
  std::string text = "'" + name + "' changes nothing: Accelerate has no such variable";
  if (!near.empty()) text.append("; did you mean '").append(kPrefix).append(near).append("'?");
  return text;
}

}  // namespace

Variables accelerate_variables() {
  Variables found;
  for (char** variable = environ; variable && *variable; ++variable) {
    const std::string_view text = *variable;
    const size_t equals = text.find('=');
    if (text.starts_with(kPrefix) && equals != text.npos) {
      found.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

EnvironmentLayer environment_layer(const Variables& variables, Diagnostics& problems) {
  WordLayer words(problems);
  for (const auto& [name, text] : variables) {
    const Node value = value_of(name, text);
    const std::string_view short_name = std::string_view(name).substr(kPrefix.size());
    if (const ForeignWord* word = find_word(kVariables, short_name)) {
      words.apply(*word, value, name + "=" + text);
    } else {
      words.warn(value.where, unknown_text(name));
    }
  }
  EnvironmentLayer layer;
  layer.tree = words.take();
  layer.warnings = words.take_warnings();
  return layer;
}

}  // namespace accel
