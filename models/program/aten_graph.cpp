#include "models/program/aten_graph.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "models/program/aten_operand.h"

namespace accel {
namespace {

using c10::IValue;
using Values = std::vector<IValue>;

constexpr std::string_view kOperators = "torch.ops.";
constexpr std::string_view kHigherOrder = "torch.ops.higher_order.";

/// Assertions of the exporter. They are dropped: types differ under autocast, and operators check
/// sizes.
constexpr std::array<std::string_view, 5> kChecks = {
    "torch.ops.aten._assert_tensor_metadata.default", "torch.ops.aten._assert_scalar.default",
    "torch.ops.aten._assert_async.msg", "torch.ops.aten.sym_constrain_range.default",
    "torch.ops.aten.sym_constrain_range_for_size.default"};

/// The device of the graph's inputs.
c10::Device device_of(const Values& values) {
  for (const IValue& value : values) {
    if (value.isTensor() && value.toTensor().defined() && !value.toTensor().is_cpu()) {
      return value.toTensor().device();
    }
  }
  return c10::kCPU;
}

class OperatorCall final : public AtenCall {
 public:
  explicit OperatorCall(c10::OperatorHandle handle) : handle_(std::move(handle)) {}
  void run(Values& stack) const override { handle_.callBoxed(stack); }

 private:
  c10::OperatorHandle handle_;
};

class NumberCall final : public AtenCall {
 public:
  explicit NumberCall(PythonFunction function) : function_(function) {}
  void run(Values& stack) const override { function_(stack); }

 private:
  PythonFunction function_;
};

/// `with torch.set_grad_enabled(...)`.
class GradModeCall final : public AtenCall {
 public:
  GradModeCall(bool enabled, const Pt2Graph& body) : enabled_(enabled), body_(body) {}
  void run(Values& stack) const override {
    const c10::AutoGradMode mode(enabled_);
    stack = body_.run(std::move(stack));
  }

 private:
  bool enabled_;
  AtenGraph body_;
};

/// `with torch.autocast(...)`.
class AutocastCall final : public AtenCall {
 public:
  AutocastCall(std::optional<at::ScalarType> type, bool enabled, const Pt2Graph& body)
      : type_(type), enabled_(enabled), body_(body) {}

  void run(Values& stack) const override {
    const at::DeviceType device = device_of(stack).type();
    const Restored before(device);
    if (type_) at::autocast::set_autocast_dtype(device, *type_);
    at::autocast::set_autocast_enabled(device, enabled_);
    stack = body_.run(std::move(stack));
  }

 private:
  struct Restored {
    at::DeviceType device;
    bool enabled = at::autocast::is_autocast_enabled(device);
    at::ScalarType type = at::autocast::get_autocast_dtype(device);
    explicit Restored(at::DeviceType on) : device(on) {}
    Restored(const Restored&) = delete;
    Restored& operator=(const Restored&) = delete;
    ~Restored() {
      at::autocast::set_autocast_enabled(device, enabled);
      at::autocast::set_autocast_dtype(device, type);
    }
  };

  std::optional<at::ScalarType> type_;
  bool enabled_;
  AtenGraph body_;
};

/// `torch.cond(...)`: both graphs take the operands after the predicate.
class CondCall final : public AtenCall {
 public:
  CondCall(const Pt2Graph& yes, const Pt2Graph& no) : yes_(yes), no_(no) {}

  void run(Values& stack) const override {
    const IValue& said = stack.front();
    const bool holds = said.isTensor() ? said.toTensor().item().toBool() : said.toBool();
    stack.erase(stack.begin());
    stack = (holds ? yes_ : no_).run(std::move(stack));
  }

 private:
  AtenGraph yes_, no_;
};

std::string where(const std::string& module) {
  return module.empty() ? "" : accel::text(" of the module '{}'", module);
}

const Pt2Graph& graph_argument(const Pt2Node& node, size_t index) {
  if (index < node.arguments.size()) {
    const auto* graph = node.arguments[index].second.as<std::shared_ptr<const Pt2Graph>>();
    if (graph) return **graph;
  }
  throw FormatError(accel::text("argument {} is not a graph", index));
}

template <class T>
T argument_as(const Pt2Node& node, size_t index, const char* wanted) {
  const T* value = node.arguments.at(index).second.as<T>();
  if (!value) throw FormatError(accel::text("argument {} is not {}", index, wanted));
  return *value;
}

void add_operands(const Pt2Node& node, size_t first, std::vector<AtenOperand>& operands) {
  for (size_t i = first; i < node.arguments.size(); ++i) {
    operands.emplace_back(node.arguments[i].second);
  }
}

std::unique_ptr<AtenCall> cond_call(const Pt2Node& node, std::vector<AtenOperand>& operands) {
  auto call = std::make_unique<CondCall>(graph_argument(node, 1), graph_argument(node, 2));
  operands.emplace_back(node.arguments[0].second);
  if (node.arguments.size() < 4) return call;
  if (const auto* list = node.arguments[3].second.as<Pt2Argument::List>()) {
    for (const Pt2Argument& item : *list) operands.emplace_back(item);
  }
  return call;
}

/// A call with subgraph arguments; null if it is not supported.
std::unique_ptr<AtenCall> higher_order_call(const Pt2Node& node,
                                            std::vector<AtenOperand>& operands) {
  const std::string_view name = std::string_view(node.target).substr(kHigherOrder.size());
  if (name == "wrap_with_set_grad_enabled") {
    const Pt2Graph& body = graph_argument(node, 1);
    add_operands(node, 2, operands);
    return std::make_unique<GradModeCall>(argument_as<bool>(node, 0, "true or false"), body);
  }
  if (name == "wrap_with_autocast") {
    const Pt2Graph& body = graph_argument(node, 4);
    std::optional<at::ScalarType> type;
    if (const auto* code = node.arguments[1].second.as<Pt2Code>()) {
      type = static_cast<at::ScalarType>(aten_code(*code));
    }
    add_operands(node, 5, operands);
    return std::make_unique<AutocastCall>(type, argument_as<bool>(node, 2, "true or false"), body);
  }
  if (name == "cond") return cond_call(node, operands);
  return nullptr;
}

/// By a name such as "torch.ops.aten.add_.Tensor".
std::optional<c10::OperatorHandle> find_operator(std::string_view target) {
  const std::string_view path = target.substr(kOperators.size());
  const size_t space = path.find('.'), overload = path.rfind('.');
  if (space == path.npos || overload <= space) return std::nullopt;
  const std::string name = std::string(path.substr(0, space))
                               .append("::")
                               .append(path.substr(space + 1, overload - space - 1));
  const std::string_view variant = path.substr(overload + 1);
  return c10::Dispatcher::singleton().findSchema(
      {name, variant == "default" ? "" : std::string(variant)});
}

/// Whether the operator creates tensors and has a device argument.
bool is_factory(const c10::FunctionSchema& schema) {
  return std::none_of(schema.arguments().begin(), schema.arguments().end(),
                      [](const c10::Argument& argument) {
                        const c10::Type& type = *argument.type();
                        return type.kind() == c10::TypeKind::TensorType ||
                               (type.kind() == c10::TypeKind::ListType &&
                                type.containedType(0)->kind() == c10::TypeKind::TensorType);
                      });
}

/// The arguments in the operator's order, with defaults for missing ones.
std::vector<AtenOperand> operands_of(const Pt2Node& node, const c10::FunctionSchema& schema) {
  std::vector<AtenOperand> out;
  size_t given = 0;
  for (const c10::Argument& argument : schema.arguments()) {
    const auto found =
        std::find_if(node.arguments.begin(), node.arguments.end(),
                     [&](const auto& named) { return named.first == argument.name(); });
    const bool is_given = found != node.arguments.end();
    if (argument.name() == "device" && is_factory(schema)) {
      out.push_back(AtenOperand::device_of_run());
      given += is_given;
    } else if (is_given) {
      out.emplace_back(found->second, *argument.type(), argument.N().value_or(0));
      ++given;
    } else if (argument.default_value() || argument.type()->kind() == c10::TypeKind::OptionalType) {
      out.emplace_back(argument.default_value().value_or(IValue()));
    } else {
      throw FormatError(accel::text("the argument '{}' is missing", argument.name()));
    }
  }
  if (given != node.arguments.size()) throw FormatError("it has arguments that are not known");
  return out;
}

/// The slots that a call modifies: according to its schema, and running statistics, which schemas
/// do not mention.
std::vector<size_t> written_by(const std::vector<AtenOperand>& operands,
                               const c10::FunctionSchema& schema) {
  std::vector<size_t> out;
  for (size_t i = 0; i < operands.size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const bool is_written = argument.alias_info() && argument.alias_info()->isWrite();
    if (is_written || argument.name().starts_with("running_")) operands[i].add_slots(out);
  }
  return out;
}

void store(const Pt2Argument& result, IValue value, ValueTable& table) {
  if (const auto* slot = result.as<Pt2Slot>()) {
    table[slot->index] = std::move(value);
  } else if (const auto* list = result.as<Pt2Argument::List>()) {
    const c10::List<IValue> values = value.toList();
    const size_t count = std::min<size_t>(list->size(), values.size());
    for (size_t i = 0; i < count; ++i) store((*list)[i], values.get(i), table);
  }
}

/// libtorch's message without its source location.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

AtenGraph::AtenGraph(const Pt2Graph& graph) : inputs_(graph.inputs), slots_(graph.slots) {
  for (const Pt2Node& node : graph.nodes) {
    if (std::find(kChecks.begin(), kChecks.end(), node.target) != kChecks.end()) continue;
    try {
      lines_.push_back(make_line(node));
    } catch (const FormatError& error) {
      throw Error(ExitCode::kRecipe,
                  accel::text("the exported program's '{}' ({}){}: {}", node.name, node.target,
                              where(node.module), error.what()));
    }
  }
  for (const Pt2Argument& output : graph.outputs) outputs_.emplace_back(output);
  mark_last_uses();
}

AtenGraph::Line AtenGraph::make_line(const Pt2Node& node) const {
  Line line = {node.name, node.target, node.module, nullptr, {}, node.outputs, {}};
  if (node.target.starts_with(kHigherOrder)) {
    line.call = higher_order_call(node, line.operands);
    line.written = {slots_};  // unknown effects of its graphs
  } else if (node.target.starts_with(kOperators)) {
    if (const auto handle = find_operator(node.target)) {
      line.operands = operands_of(node, handle->schema());
      line.written = written_by(line.operands, handle->schema());
      line.call = std::make_unique<OperatorCall>(*handle);
      return line;
    }
  } else if (const PythonFunction function = python_function(node.target)) {
    line.call = std::make_unique<NumberCall>(function);
    add_operands(node, 0, line.operands);
  }
  if (!line.call) throw FormatError("this build lacks the operator");
  return line;
}

void AtenGraph::mark_last_uses() {
  std::set<size_t> used;
  std::vector<size_t> slots;
  for (const AtenOperand& output : outputs_) output.add_slots(slots);
  used.insert(slots.begin(), slots.end());
  for (auto line = lines_.rbegin(); line != lines_.rend(); ++line) {
    for (auto operand = line->operands.rbegin(); operand != line->operands.rend(); ++operand) {
      slots.clear();
      operand->add_slots(slots);
      for (const size_t slot : slots) {
        if (used.insert(slot).second) operand->take(slot);
      }
    }
  }
  // Unused results are not kept.
  const auto drop_unused = [&used](auto& self, Pt2Argument& result) -> void {
    if (const auto* slot = result.as<Pt2Slot>(); slot && !used.contains(slot->index)) result = {};
    if (auto* list = std::get_if<Pt2Argument::List>(&result.value)) {
      for (Pt2Argument& item : *list) self(self, item);
    }
  };
  for (Pt2Argument& input : inputs_) drop_unused(drop_unused, input);
  for (Line& line : lines_) {
    for (Pt2Argument& result : line.results) drop_unused(drop_unused, result);
  }
}

void AtenGraph::run_line(const Line& line, ValueTable& table, Values& stack) const {
  stack.clear();
  for (const AtenOperand& operand : line.operands) stack.push_back(operand.get(table));
  line.call->run(stack);
  const size_t count = std::min(line.results.size(), stack.size());
  for (size_t i = 0; i < count; ++i) store(line.results[i], std::move(stack[i]), table);
}

void AtenGraph::run_lines(size_t begin, size_t end, ValueTable& table) const {
  Values stack;
  size_t next = begin;
  try {
    for (; next < end; ++next) run_line(lines_[next], table, stack);
  } catch (const c10::Error& error) {
    if (is_out_of_memory(error)) throw;
    const Line& line = lines_[next];
    throw Error(ExitCode::kRecipe,
                accel::text("the exported program fails in '{}' ({}){}: {}", line.name, line.target,
                            where(line.module), first_line(error.what_without_backtrace())));
  }
}

Values AtenGraph::run(Values inputs) const {
  ValueTable table(slots_ + 1);
  table.back() = device_of(inputs);
  for (size_t i = 0; i < inputs_.size(); ++i) store(inputs_[i], std::move(inputs.at(i)), table);
  inputs.clear();
  size_t next = 0;
  for (const Region& region : regions_) {
    if (region.block->checkpointing() == ActivationCheckpointing::kNone) continue;
    if (!at::GradMode::is_enabled()) continue;
    run_lines(next, region.begin, table);
    run_region(region, table);
    next = region.end;
  }
  run_lines(next, lines_.size(), table);
  Values outputs;
  for (const AtenOperand& output : outputs_) outputs.push_back(output.get(table));
  return outputs;
}

}  // namespace accel
