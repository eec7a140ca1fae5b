// Accelerate's environment variables.
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "compat/accelerate/accelerate_keys.h"
#include "compat/accelerate/compat_fp8.h"
#include "compat/accelerate/sharding_layer.h"
#include "core/base/text.h"

namespace accel {
namespace {

using Effect = CompatKey::Effect;

constexpr std::string_view kPrefix = "ACCELERATE_";
constexpr std::string_view kFp8Variables = "ACCELERATE_FP8_";
constexpr std::string_view kLogReason = "accel-run has no log levels";
constexpr std::string_view kPythonReason = "it configures Python libraries";

constexpr CompatKey kVariables[] = {
    {"MIXED_PRECISION", Effect::kPrecision, "accelerator.mixed_precision"},
    {"USE_CPU", Effect::kTurnsOn, "accelerator.device=cpu"},
    {"DEBUG_MODE", Effect::kTurnsOn, "accelerator.debug=collectives"},
    {"TORCH_DEVICE", Effect::kSets, "accelerator.device"},
    {"GRADIENT_ACCUMULATION_STEPS", Effect::kSets, "train.gradient_accumulation_steps", "auto"},
    {"GRADIENT_CLIPPING", Effect::kSets, "train.max_grad_norm", "auto none"},
    {"CPU_AFFINITY", Effect::kRefused, reasons::kAffinity, kOff, "unset it"},
    {"DOWNCAST_BF16", Effect::kRefused, reasons::kTpu, kOff, "unset it"},
    {"IN_TPU_POD", Effect::kRefused, reasons::kTpu, kOff, "unset it"},
    {"USE_SAGEMAKER", Effect::kRefused, reasons::kSageMaker, kOff, "unset it"},
    {"DYNAMO_BACKEND", Effect::kRefused, reasons::kCompile, kOff, "unset it"},
    {"LOG_LEVEL", Effect::kIdle, kLogReason},
    {"ENABLE_RICH", Effect::kIdle, kPythonReason, kOff},
    {"BYPASS_DEVICE_MAP", Effect::kIdle, kPythonReason, kOff},
    {"ALLOW_CP_STANDALONE", Effect::kIdle, reasons::kContextParallel, kOff},
    {"INIT_INCLUDE_BUFFERS", Effect::kIdle, kPythonReason, kOff},
    {"DEBUG_RDV_FILE", Effect::kIdle, reasons::kRendezvous},
    {"DYNAMO_MODE", Effect::kDetail},
    {"DYNAMO_USE_FULLGRAPH", Effect::kDetail},
    {"DYNAMO_USE_DYNAMIC", Effect::kDetail},
    {"DYNAMO_USE_REGIONAL_COMPILATION", Effect::kDetail},
    {"CONFIG_DS_FIELDS", Effect::kDetail},
    {"SAGEMAKER_DISTRIBUTED_TYPE", Effect::kDetail},
};

/// The variable's value, with the whole variable as its source.
Node value_of(const std::string& name, const std::string& value) {
  const auto source = std::make_shared<const Source>(
      Source{name, name + "=" + value, Source::Kind::kEnvironment, 0});
  return scalar_node(value, false, {source, 1, static_cast<int>(name.size()) + 2});
}

char upper_case(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

bool is_accelerates(std::string_view variable) {
  if (variable.starts_with(kPrefix)) return true;
  const auto families = sharding_families();
  return std::any_of(families.begin(), families.end(), [&](const ShardingFamily* family) {
    return variable.starts_with(family->variables);
  });
}

/// Whether the variable is an option of sharding or enables a family.
bool add_to_sharding(const std::string& name, const Node& value, ShardingLayer& sharding,
                     Diagnostics& problems) {
  const std::string shown = name + "=" + value.scalar()->text;
  for (const ShardingFamily* family : sharding_families()) {
    ShardingOption option{name, value, value.where, shown};
    if (name == std::string(kPrefix).append(family->switch_name)) {
      const bool off = is_neutral(value, kOff);
      if (!off && read_bool(value, shown, problems).value_or(false)) {
        sharding.enable(*family, std::move(option));
      }
      return true;
    }
    if (!name.starts_with(family->variables)) continue;
    option.name = ascii_lower(name.substr(family->variables.size()));
    if (!match_option(*family, option.name, value).key) return false;
    sharding.add(*family, std::move(option));
    return true;
  }
  return false;
}

/// Whether the variable is an option of fp8.
bool add_to_fp8(const std::string& name, const Node& value, CompatFp8& fp8) {
  if (!name.starts_with(kFp8Variables)) return false;
  const Fp8Option* option = find_fp8_option(ascii_lower(name.substr(kFp8Variables.size())));
  if (!option) return false;
  fp8.add(*option, value, name + "=" + value.scalar()->text);
  return true;
}

std::string upper_text(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(), &upper_case);
  return upper;
}

std::string unknown_text(const std::string& name) {
  std::vector<std::string> names;
  for (const Fp8Option& option : fp8_options()) {
    names.push_back(std::string(kFp8Variables).append(upper_text(option.name)));
  }
  for (const CompatKey& key : kVariables) names.push_back(std::string(kPrefix).append(key.name));
  for (const ShardingFamily* family : sharding_families()) {
    for (const std::string& option : option_names(*family)) {
      names.push_back(std::string(family->variables).append(upper_text(option)));
    }
  }
  const std::string near = closest(name, names);
  const std::string hint = near.empty() ? "" : text("; did you mean '{}'?", near);
  return text("'{}' has no effect: Accelerate has no such variable{}", name, hint);
}

}  // namespace

Variables accelerate_variables() {
  Variables found;
  for (char** variable = environ; variable && *variable; ++variable) {
    const std::string_view text = *variable;
    const size_t equals = text.find('=');
    if (equals != text.npos && is_accelerates(text)) {
      found.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

EnvironmentLayer environment_layer(const Variables& variables, Diagnostics& problems) {
  CompatLayer builder(problems);
  ShardingLayer sharding(builder, ShardingLayer::Place::kEnvironment);
  CompatFp8 fp8(builder);
  for (const auto& [name, content] : variables) {
    const Node value = value_of(name, content);
    if (add_to_sharding(name, value, sharding, problems) || add_to_fp8(name, value, fp8)) continue;
    const CompatKey* key = name.starts_with(kPrefix)
                               ? find_compat_key(kVariables, name.substr(kPrefix.size()))
                               : nullptr;
    if (key) {
      builder.apply(*key, value, name + "=" + content);
    } else {
      builder.warn(value.where, unknown_text(name));
    }
  }
  sharding.finish();
  fp8.finish();
  EnvironmentLayer layer;
  layer.tree = builder.take();
  layer.warnings = builder.take_warnings();
  return layer;
}

}  // namespace accel
