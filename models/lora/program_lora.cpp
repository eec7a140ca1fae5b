#include "models/lora/program_lora.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/recipe/name_pattern.h"
#include "models/hf/hf_weights.h"
#include "models/layers/adapted_linear.h"
#include "models/lora/lora_folder.h"

namespace accel {
namespace {

constexpr std::string_view kWeight = ".weight";

const Pt2Argument* named_argument(const Pt2Node& node, std::string_view name) {
  for (const auto& [own, argument] : node.arguments) {
    if (own == name) return &argument;
  }
  return nullptr;
}

/// The arguments of a linear operator, and whether its weight is [in, out].
struct LinearForm {
  const char *target, *input, *weight;
  bool transposed;
};

constexpr LinearForm kLinearForms[] = {
    {"torch.ops.aten.linear.default", "input", "weight", false},
    {"torch.ops.aten.addmm.default", "mat1", "mat2", true},
};

struct LinearCall {
  const LinearForm* form;
  std::string weight;
  std::string layer;
};

/// The module of a weight: its name's prefix, except for tied weights and functional calls.
std::string layer_of(const std::string& weight, const std::string& module) {
  const std::string owner =
      weight.ends_with(kWeight) ? weight.substr(0, weight.size() - kWeight.size()) : weight;
  const bool within = module.empty() || owner.starts_with(module + ".");
  return within ? owner : module;
}

using ParameterSlots = std::map<size_t, std::string>;

ParameterSlots parameter_slots(const Pt2Program& program) {
  ParameterSlots out;
  for (const Pt2Input& input : program.inputs) {
    const auto* slot = input.value.as<Pt2Slot>();
    if (slot && input.kind == Pt2Input::Kind::kParameter) out.emplace(slot->index, input.name);
  }
  return out;
}

std::optional<LinearCall> linear_call(const Pt2Node& node, const ParameterSlots& parameters) {
  for (const LinearForm& form : kLinearForms) {
    if (node.target != form.target) continue;
    const Pt2Argument* weight = named_argument(node, form.weight);
    const auto* slot = weight ? weight->as<Pt2Slot>() : nullptr;
    const auto found = slot ? parameters.find(slot->index) : parameters.end();
    if (found == parameters.end()) return std::nullopt;
    return LinearCall{&form, found->second, layer_of(found->second, node.module)};
  }
  return std::nullopt;
}

void want_matches(const std::vector<std::string>& patterns, const char* kind,
                  const std::vector<std::string>& names) {
  for (const std::string& pattern : patterns) {
    const auto fits = [&](const std::string& name) { return name_matches(pattern, name); };
    if (std::any_of(names.begin(), names.end(), fits)) continue;
    const UnmatchedPattern unmatched = {pattern, kind, names};
    throw Error(ExitCode::kRecipe, unmatched.message(), unmatched.hint());
  }
}

bool fits_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return name_matches(pattern, name); });
}

/// Inserts calls after a node, with names derived from its name.
class CallsBehind {
 public:
  using Arguments = std::vector<std::pair<std::string, Pt2Argument>>;

  CallsBehind(Pt2Graph& graph, const Pt2Node& call) : graph_(graph), call_(call) {}

  /// Returns the slot of the result.
  Pt2Argument add(const char* what, const char* target, Arguments arguments) {
    const Pt2Argument result = {Pt2Slot{graph_.slots++}};
    add_into(result, what, target, std::move(arguments));
    return result;
  }
  void add_into(const Pt2Argument& result, const char* what, const char* target,
                Arguments arguments) {
    graph_.nodes.push_back({call_.name + what,
                            std::string("torch.ops.aten.").append(target),
                            call_.module,
                            std::move(arguments),
                            {result}});
  }

 private:
  Pt2Graph& graph_;
  const Pt2Node& call_;
};

/// Options that change the calls of a layer, or the base weights.
void refuse_variants(const LoraOptions& lora) {
  const bool plain = lora.rank_pattern.empty() && lora.alpha_pattern.empty() && !lora.dora &&
                     !lora.lora_bias && lora.bias == LoraBias::kNone &&
                     (lora.init == LoraInit::kDefault || lora.init == LoraInit::kGaussian);
  if (plain) return;
  throw Error(ExitCode::kRecipe,
              "an exported program has adapters without 'rank_pattern', 'alpha_pattern', 'dora', "
              "'bias', 'lora_bias' and 'init' pissa or olora",
              "export the Python module with PEFT's adapter in it");
}

struct AdapterSlots {
  Pt2Argument a, b;
};

/// Replaces the result of a call by its sum with the adapter's output.
void add_adapted(Pt2Graph& graph, const LinearForm& form, Pt2Node call, const AdapterSlots& slots,
                 const LoraOptions& lora) {
  const Pt2Argument result = call.outputs[0], plain = {Pt2Slot{graph.slots++}};
  Pt2Argument x = *named_argument(call, form.input);
  call.outputs[0] = plain;
  graph.nodes.push_back(call);
  CallsBehind calls(graph, call);
  if (lora.dropout > 0) {
    x = calls.add("_dropped", "dropout.default",
                  {{"input", x}, {"p", {lora.dropout}}, {"train", {true}}});
  }
  x = calls.add("_lora_A", "linear.default", {{"input", x}, {"weight", slots.a}});
  x = calls.add("_lora_B", "linear.default", {{"input", x}, {"weight", slots.b}});
  x = calls.add("_scaled", "mul.Tensor", {{"self", x}, {"other", {lora.scale()}}});
  calls.add_into(result, "_adapted", "add.Tensor", {{"self", plain}, {"other", x}});
}

}  // namespace

std::vector<ProgramLinear> linears_of(const Pt2Program& program, const Pt2File& file) {
  const ParameterSlots parameters = parameter_slots(program);
  std::vector<ProgramLinear> out;
  std::set<std::string> seen;
  for (const Pt2Node& node : program.graph.nodes) {
    const std::optional<LinearCall> call = linear_call(node, parameters);
    if (!call || !seen.insert(call->layer).second) continue;
    const Shape& sizes = file.tensors.at(call->weight).sizes;
    const auto [in, out_features] = call->form->transposed ? std::pair(sizes.at(0), sizes.at(1))
                                                           : std::pair(sizes.at(1), sizes.at(0));
    out.push_back({call->layer, in, out_features});
  }
  return out;
}

std::vector<Parameter> make_adapters(const std::vector<ProgramLinear>& linears,
                                     const LoraOptions& lora) {
  std::vector<std::string> names;
  for (const ProgramLinear& linear : linears) names.push_back(linear.name);
  want_matches(lora.target_modules, "linear layer", names);
  refuse_variants(lora);
  std::vector<Parameter> out;
  for (const ProgramLinear& linear : linears) {
    if (!fits_any(lora.target_modules, linear.name)) continue;
    const AdapterPair pair = make_adapter(linear.inputs, linear.outputs, lora);
    out.push_back({linear.name + kLoraA, pair.a->weight});
    out.push_back({linear.name + kLoraB, pair.b->weight});
  }
  return out;
}

Pt2Program with_adapters(Pt2Program program, const std::vector<Parameter>& adapters,
                         const LoraOptions& lora) {
  const ParameterSlots parameters = parameter_slots(program);
  std::map<std::string, Pt2Argument> slots;
  for (const Parameter& item : adapters) {
    const Pt2Argument slot = {Pt2Slot{program.graph.slots++}};
    program.graph.inputs.push_back(slot);
    program.inputs.push_back({Pt2Input::Kind::kParameter, item.name, true, slot});
    slots.emplace(item.name, slot);
  }
  for (Pt2Node& node : std::exchange(program.graph.nodes, {})) {
    const std::optional<LinearCall> call = linear_call(node, parameters);
    const auto a = call ? slots.find(call->layer + kLoraA) : slots.end();
    if (a == slots.end() || !node.outputs.at(0).as<Pt2Slot>()) {
      program.graph.nodes.push_back(std::move(node));
    } else {
      const AdapterSlots pair = {a->second, slots.at(call->layer + kLoraB)};
      add_adapted(program.graph, *call->form, std::move(node), pair, lora);
    }
  }
  return program;
}

void load_program_adapter(const std::vector<Parameter>& adapters, const std::vector<Parameter>& own,
                          const LoraOptions& lora) {
  if (lora.adapter.text.empty()) return;
  const std::vector<std::string> also = lora.modules_to_save.value_or(std::vector<std::string>());
  std::vector<Parameter> trained = adapters;
  HfNames names;
  for (const Parameter& item : own) {
    if (!fits_any(also, item.name)) continue;
    trained.push_back(item);
    names.heads.push_back(item.name);  // optional in the folder
  }
  load_weights(trained, read_adapter_weights(lora.adapter.text), names, "exported");
}

void train_adapters_only(const std::vector<Parameter>& parameters,
                         const std::vector<Parameter>& buffers, const LoraOptions& lora) {
  const std::vector<std::string> also = lora.modules_to_save.value_or(std::vector<std::string>());
  std::vector<std::string> names;
  for (const Parameter& item : parameters) names.push_back(item.name);
  for (const Parameter& item : buffers) names.push_back(item.name);
  want_matches(also, "parameter", names);
  for (const Parameter& item : parameters) {
    item.local.set_requires_grad(fits_any(also, item.name));
  }
}

}  // namespace accel
