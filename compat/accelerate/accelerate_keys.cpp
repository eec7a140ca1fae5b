#include "compat/accelerate/accelerate_keys.h"

#include <unistd.h>

#include <algorithm>
#include <memory>

#include "core/base/text.h"
#include "core/recipe/interpolate.h"

namespace accel {
namespace {

std::string location_prefix(const Span& where) {
  const Source* source = where.source.get();
  if (!source) return {};
  if (source->kind == Source::Kind::kArgument) {
    return text("argument {}: ", source->argument);
  }
  if (source->kind == Source::Kind::kEnvironment) return text("environment {}: ", source->path);
  return text("{}:{}:{}: ", source->path, where.line, where.column);
}

using Effect = CompatKey::Effect;

constexpr std::string_view kPrefix = "ACCELERATE_";
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
    {"USE_DEEPSPEED", Effect::kRefused, reasons::kDeepSpeed, kOff, "unset it"},
    {"USE_FSDP", Effect::kRefused, reasons::kSplit, kOff, "unset it"},
    {"USE_MEGATRON_LM", Effect::kRefused, reasons::kMegatron, kOff, "unset it"},
    {"USE_PARALLELISM_CONFIG", Effect::kRefused, reasons::kSplit, kOff, "unset it"},
    {"USE_SAGEMAKER", Effect::kRefused, reasons::kSageMaker, kOff, "unset it"},
    {"DYNAMO_BACKEND", Effect::kRefused, reasons::kCompile, kOff, "unset it"},
    {"FP8_BACKEND", Effect::kRefused, reasons::kFp8, kOff, "unset it"},
    {"LOG_LEVEL", Effect::kIdle, kLogReason},
    {"ENABLE_RICH", Effect::kIdle, kPythonReason, kOff},
    {"BYPASS_DEVICE_MAP", Effect::kIdle, kPythonReason, kOff},
    {"ALLOW_CP_STANDALONE", Effect::kIdle, reasons::kSplit, kOff},
    {"INIT_INCLUDE_BUFFERS", Effect::kIdle, kPythonReason, kOff},
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

/// The variable's value, with the whole variable as its source.
Node value_of(const std::string& name, const std::string& value) {
  const auto source = std::make_shared<const Source>(
      Source{name, name + "=" + value, Source::Kind::kEnvironment, 0});
  return scalar_node(value, false, {source, 1, static_cast<int>(name.size()) + 2});
}

std::string unknown_text(const std::string& name) {
  const std::string near = closest(name.substr(kPrefix.size()), key_names(kVariables));
  const std::string hint = near.empty() ? "" : text("; did you mean '{}{}'?", kPrefix, near);
  return text("'{}' has no effect: Accelerate has no such variable{}", name, hint);
}

}  // namespace

bool has_word(std::string_view words, const std::string& word) {
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    if (words.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

bool is_neutral(const Node& value, std::string_view neutral) {
  if (const Scalar* scalar = value.scalar()) {
    return scalar->text.empty() || has_word(neutral, ascii_lower(scalar->text));
  }
  if (const Node::List* list = value.list()) {
    return std::all_of(list->begin(), list->end(),
                       [](const Node& item) { return is_neutral(item, {}); });
  }
  return value.null() || value.map()->empty();
}

std::optional<bool> read_bool(const Node& value, const std::string& shown, Diagnostics& problems) {
  if (const Scalar* scalar = value.scalar()) {
    const std::string word = ascii_lower(scalar->text);
    if (has_word("true yes on y t 1", word)) return true;
    if (has_word("false no off n f 0", word)) return false;
  }
  problems.error(value.where, text("'{}' is neither true nor false", shown));
  return std::nullopt;
}

std::string key_with_value(std::string_view name, std::string_view between, const Node& value) {
  const Scalar* scalar = value.scalar();
  std::string out(name);
  if (scalar) out.append(between).append(scalar->text);
  return out;
}

const CompatKey* find_compat_key(std::span<const CompatKey> words, std::string_view name) {
  const auto found = std::find_if(words.begin(), words.end(),
                                  [&](const CompatKey& word) { return word.name == name; });
  return found == words.end() ? nullptr : &*found;
}

std::vector<std::string> key_names(std::span<const CompatKey> words) {
  std::vector<std::string> names;
  for (const CompatKey& word : words) names.emplace_back(word.name);
  return names;
}

void CompatLayer::set(std::string_view key, Node value) {
  const size_t dot = key.find('.');
  const std::string section(key.substr(0, dot)), option(key.substr(dot + 1));
  const Span where = value.where;
  Node::Entry* outer = tree_.find(section);
  if (!outer) {
    tree_.map()->push_back({section, where, {Node::Map{}, where}});
    outer = &tree_.map()->back();
  }
  value = escape_references(std::move(value));
  if (Node::Entry* old = outer->node.find(option)) {
    *old = {option, where, std::move(value)};
  } else {
    outer->node.map()->push_back({option, where, std::move(value)});
  }
}

void CompatLayer::refuse(const Span& where, const std::string& shown, std::string_view reason,
                         std::string_view hint) {
  problems_.error(where, text("'{}' is not supported: {}", shown, reason), std::string(hint));
}

void CompatLayer::warn(const Span& where, const std::string& message) {
  warnings_.push_back(location_prefix(where) + message);
}

void CompatLayer::drop_lone_address() {
  Node::Entry* section = tree_.find("accelerator");
  if (!section) return;
  const Node::Entry* machines = section->node.find("num_machines");
  const Node::Entry* address = section->node.find("main_process_ip");
  if (!machines || !address || !machines->node.scalar() || machines->node.scalar()->text != "1") {
    return;
  }
  warn(address->node.where, "'main_process_ip' has no effect on one machine");
  std::erase_if(*section->node.map(),
                [](const Node::Entry& entry) { return entry.key == "main_process_ip"; });
}

void CompatLayer::apply(const CompatKey& key, const Node& value, const std::string& shown) {
  using Effect = CompatKey::Effect;
  if (key.effect == Effect::kDetail || is_neutral(value, key.neutral)) return;
  switch (key.effect) {
    case Effect::kSets:
      set(key.target, value);
      return;
    case Effect::kTurnsOn:
      if (read_bool(value, shown, problems_).value_or(false)) {
        const size_t equals = key.target.find('=');
        set(key.target.substr(0, equals),
            scalar_node(std::string(key.target.substr(equals + 1)), false, value.where));
      }
      return;
    case Effect::kPrecision: {
      Node lower = value;
      if (Scalar* scalar = lower.scalar()) scalar->text = ascii_lower(scalar->text);
      if (lower.scalar() && lower.scalar()->text == "fp8") {
        refuse(value.where, shown, reasons::kFp8, "use bf16");
      } else {
        set(key.target, std::move(lower));
      }
      return;
    }
    case Effect::kRefused:
      refuse(value.where, shown, key.target, key.hint);
      return;
    case Effect::kIdle:
      warn(value.where, text("'{}' has no effect: {}", shown, key.target));
      return;
    case Effect::kDetail:
    case Effect::kPlain:
      return;
  }
}

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
  CompatLayer builder(problems);
  for (const auto& [name, content] : variables) {
    const Node value = value_of(name, content);
    const std::string_view short_name = std::string_view(name).substr(kPrefix.size());
    if (const CompatKey* key = find_compat_key(kVariables, short_name)) {
      builder.apply(*key, value, name + "=" + content);
    } else {
      builder.warn(value.where, unknown_text(name));
    }
  }
  EnvironmentLayer layer;
  layer.tree = builder.take();
  layer.warnings = builder.take_warnings();
  return layer;
}

}  // namespace accel
