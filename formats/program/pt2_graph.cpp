// Parser of the graph in an exported program's JSON.
#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "core/base/text.h"
#include "formats/program/pt2_json.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr size_t kArgumentBytes = 2 * sizeof(Pt2Argument);
constexpr size_t kGraphNodeBytes = 2 * sizeof(Pt2Node);

struct ListKind {
  std::string_view list;
  std::string_view item;  ///< "": each item has its own kind
};

constexpr std::array kListKinds = {
    ListKind{"as_tensors", "as_tensor"}, ListKind{"as_ints", "as_int"},
    ListKind{"as_floats", "as_float"},   ListKind{"as_bools", "as_bool"},
    ListKind{"as_strings", "as_string"}, ListKind{"as_sym_ints", ""},
    ListKind{"as_sym_floats", ""},       ListKind{"as_sym_bools", ""},
    ListKind{"as_optional_tensors", ""}, ListKind{"as_nested_tensors", "as_tensors"},
    ListKind{"as_int_lists", "as_ints"},
};

/// The format writes infinities and NaN as strings.
double number_of(const json& value) {
  if (value.is_number()) return value.get<double>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (value == "Infinity") return kInfinity;
  if (value == "-Infinity") return -kInfinity;
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  throw FormatError("'as_float' is not a number");
}

/// The calling Python module: the path in the last of "key,path,class;key,path,class".
std::string module_of(const json& metadata) {
  const auto stack = metadata.find("nn_module_stack");
  if (stack == metadata.end() || !stack->is_string()) return "";
  const auto& text = stack->get_ref<const std::string&>();
  const size_t last = text.rfind(';') == text.npos ? 0 : text.rfind(';') + 1;
  const size_t begin = text.find(',', last), end = text.rfind(',');
  return begin == text.npos || end <= begin ? "" : text.substr(begin + 1, end - begin - 1);
}

class Pt2GraphReader {
 public:
  explicit Pt2GraphReader(MemoryBudget& budget) : budget_(budget) {}

  Pt2Graph read(const json& graph) {
    Pt2Graph out;
    out.inputs = list_of(pt2_list(graph, "inputs"), Use::kMakes);
    for (const json& node : pt2_list(graph, "nodes")) out.nodes.push_back(read_node(node));
    out.outputs = list_of(pt2_list(graph, "outputs"), Use::kTakes);
    out.slots = slots_.size();
    return out;
  }

 private:
  enum class Use { kTakes, kMakes };

  Pt2Node read_node(const json& node) {
    budget_.take(kGraphNodeBytes);
    Pt2Node out;
    out.target = pt2_text(pt2_member(node, "target"), "'target' of a node");
    const auto name = node.find("name");
    out.name = name != node.end() && name->is_string() ? name->get<std::string>() : out.target;
    out.module = module_of(pt2_member(node, "metadata"));
    try {
      for (const json& argument : pt2_list(node, "inputs")) {
        out.arguments.emplace_back(pt2_text(pt2_member(argument, "name"), "'name' of an argument"),
                                   read(pt2_member(argument, "arg"), Use::kTakes));
      }
      out.outputs = list_of(pt2_list(node, "outputs"), Use::kMakes);
    } catch (const FormatError& error) {
      throw FormatError(text("node '{}' ({}): {}", out.name, out.target, error.what()));
    }
    return out;
  }

  std::vector<Pt2Argument> list_of(const json& list, Use use) {
    std::vector<Pt2Argument> out;
    for (const json& item : list) out.push_back(read(item, use));
    return out;
  }

  /// Reads an object whose one key is the kind.
  Pt2Argument read(const json& value, Use use) {
    const std::string kind = pt2_kind(value);
    return of_kind(kind, value.front(), use);
  }

  Pt2Argument of_kind(std::string_view kind, const json& value, Use use) {
    budget_.take(kArgumentBytes);
    if (kind == "as_tensor") return slot(pt2_text(pt2_member(value, "name"), "'name'"), use);
    if (kind == "as_name") return slot(pt2_text(value, "'as_name'"), use);
    if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool" ||
        kind == "as_optional_tensor") {
      return read(value, use);
    }
    for (const ListKind& known : kListKinds) {
      if (known.list == kind) return list(known, value, use);
    }
    if (kind == "as_graph") {
      return {std::make_shared<const Pt2Graph>(
          Pt2GraphReader(budget_).read(pt2_member(value, "graph")))};
    }
    return plain(kind, value);
  }

  Pt2Argument list(const ListKind& kind, const json& value, Use use) {
    if (!value.is_array()) {
      throw FormatError(text("'{}' is not a list", kind.list));
    }
    Pt2Argument::List items;
    for (const json& item : value) {
      items.push_back(kind.item.empty() ? read(item, use) : of_kind(kind.item, item, use));
    }
    return {std::move(items)};
  }

  static Pt2Argument plain(std::string_view kind, const json& value) {
    if (kind == "as_none") return {};
    if (kind == "as_int") return {pt2_integer(value, "'as_int'")};
    if (kind == "as_bool") return {pt2_flag(value, "'as_bool'")};
    if (kind == "as_float") return {number_of(value)};
    if (kind == "as_string") return {pt2_text(value, "'as_string'")};
    if (kind == "as_device") return {Pt2Device{pt2_text(pt2_member(value, "type"), "'type'")}};
    if (kind == "as_complex") {
      return {std::complex<double>(number_of(pt2_member(value, "real")),
                                   number_of(pt2_member(value, "imag")))};
    }
    using Kind = Pt2Code::Kind;
    constexpr std::array kCodes = {std::pair("as_scalar_type", Kind::kScalarType),
                                   std::pair("as_memory_format", Kind::kMemoryFormat),
                                   std::pair("as_layout", Kind::kLayout)};
    for (const auto& [name, code] : kCodes) {
      if (kind == name) return {Pt2Code{code, pt2_integer(value, name)}};
    }
    throw FormatError(text("arguments of kind '{}' are not supported", kind));
  }

  Pt2Argument slot(const std::string& name, Use use) {
    const auto known = slots_.find(name);
    if (use == Use::kTakes) {
      if (known != slots_.end()) return {Pt2Slot{known->second}};
      throw FormatError(text("'{}' is used before it is computed", name));
    }
    // Unused values have an empty name.
    if (name.empty()) return {};
    if (known != slots_.end()) throw FormatError(text("'{}' is computed twice", name));
    budget_.take(kArgumentBytes + name.size());
    slots_.emplace(name, slots_.size());
    return {Pt2Slot{slots_.size() - 1}};
  }

  MemoryBudget& budget_;
  std::unordered_map<std::string, size_t> slots_;
};

/// Names of the outputs: the keys of a dict in the output's pytree spec, else "0", "1", ...
std::vector<std::string> output_names(const json& graph_module, size_t count) {
  std::vector<std::string> out;
  for (size_t i = 0; i < count; ++i) out.push_back(std::to_string(i));
  const auto calls = graph_module.find("module_call_graph");
  if (calls == graph_module.end() || !calls->is_array() || calls->empty()) return out;
  const json signature = calls->front().value("signature", json());
  if (!signature.is_object()) return out;
  const json spec = json::parse(signature.value("out_spec", ""), nullptr, false);
  if (!spec.is_array() || spec.size() != 2 || !spec[1].is_object()) return out;
  const auto text = spec[1].find("context");
  if (text == spec[1].end() || !text->is_string()) return out;
  const json keys = json::parse(text->get_ref<const std::string&>(), nullptr, false);
  const bool named =
      keys.is_array() && keys.size() == count &&
      std::all_of(keys.begin(), keys.end(), [](const json& k) { return k.is_string(); });
  for (size_t i = 0; named && i < count; ++i) out[i] = keys[i].get<std::string>();
  return out;
}

/// Ranges of dynamic sizes by symbol.
class Pt2Ranges {
 public:
  explicit Pt2Ranges(const json& program) {
    const auto found = program.find("range_constraints");
    if (found != program.end() && found->is_object()) constraints_ = &*found;
  }

  Pt2Size of(const json& size) const {
    const std::string kind = pt2_kind(size);
    if (kind == "as_int") {
      const int64_t known = pt2_integer(size.front(), "a size");
      return {known, known};
    }
    Pt2Size range = {0, std::numeric_limits<int64_t>::max()};
    if (kind != "as_expr" || !constraints_) return range;
    const std::string expression = pt2_text(pt2_member(size.front(), "expr_str"), "'expr_str'");
    const auto known = constraints_->find(symbol_of(expression));
    if (known == constraints_->end() || !known->is_object()) return range;
    const auto least = known->find("min_val"), most = known->find("max_val");
    if (least != known->end() && least->is_number_integer()) range.least = least->get<int64_t>();
    if (most != known->end() && most->is_number_integer()) range.most = most->get<int64_t>();
    return range;
  }

 private:
  /// "s77" of "Symbol('s77', positive=True, integer=True)"; "" for other expressions.
  static std::string symbol_of(const std::string& expression) {
    constexpr std::string_view kStart = "Symbol('";
    if (!expression.starts_with(kStart)) return expression;
    const size_t end = expression.find('\'', kStart.size());
    if (end == expression.npos || expression.find("Symbol(", end) != expression.npos) return "";
    return expression.substr(kStart.size(), end - kStart.size());
  }

  const json* constraints_ = nullptr;
};

Pt2TensorMeta meta_of(const json& graph, const json& argument, const Pt2Ranges& ranges) {
  if (pt2_kind(argument) != "as_tensor") return {};
  const std::string name = pt2_text(pt2_member(argument.front(), "name"), "'name'");
  const json& meta = pt2_member(pt2_member(graph, "tensor_values"), name.c_str());
  Pt2TensorMeta out = {pt2_integer(pt2_member(meta, "dtype"), "'dtype'"), {}};
  for (const json& size : pt2_list(meta, "sizes")) out.sizes.push_back(ranges.of(size));
  return out;
}

Pt2Input read_input(const json& spec) {
  using Kind = Pt2Input::Kind;
  const std::string kind = pt2_kind(spec);
  const json& body = spec.front();
  const auto named = [&](const char* key) { return pt2_text(pt2_member(body, key), key); };
  if (kind == "parameter") return {Kind::kParameter, named("parameter_name")};
  if (kind == "tensor_constant") return {Kind::kConstant, named("tensor_constant_name")};
  if (kind == "buffer") {
    return {Kind::kBuffer, named("buffer_name"),
            pt2_flag(pt2_member(body, "persistent"), "persistent")};
  }
  if (kind == "constant_input") return {Kind::kUser, named("name")};
  if (kind != "user_input") {
    throw FormatError(text("inputs of kind '{}' are not supported", kind));
  }
  return {Kind::kUser, ""};
}

}  // namespace

Pt2Program read_pt2_program(const json& program, MemoryBudget& budget) {
  const json& graph_module = pt2_member(program, "graph_module");
  const json& graph = pt2_member(graph_module, "graph");
  const json& signature = pt2_member(graph_module, "signature");
  Pt2Program out;
  out.graph = Pt2GraphReader(budget).read(graph);
  const Pt2Ranges ranges(program);
  std::unordered_set<std::string> names;
  for (const json& spec : pt2_list(signature, "input_specs")) {
    if (out.inputs.size() == out.graph.inputs.size()) break;
    Pt2Input input = read_input(spec);
    const json& argument = pt2_member(graph, "inputs")[out.inputs.size()];
    input.value = out.graph.inputs[out.inputs.size()];
    if (input.kind == Pt2Input::Kind::kUser) {
      input.meta = meta_of(graph, argument, ranges);
      if (input.name.empty() && argument.front().is_object()) {
        input.name = pt2_text(pt2_member(argument.front(), "name"), "'name'");
      }
    } else if (!names.insert(input.name).second) {
      throw FormatError(text("the tensor '{}' is an input twice", input.name));
    }
    out.inputs.push_back(std::move(input));
  }
  if (out.inputs.size() != out.graph.inputs.size() ||
      out.inputs.size() != pt2_list(signature, "input_specs").size()) {
    throw FormatError(text("the graph has {} inputs, its signature {}", out.graph.inputs.size(),
                           pt2_list(signature, "input_specs").size()));
  }
  for (const json& spec : pt2_list(signature, "output_specs")) {
    const std::string kind = pt2_kind(spec);
    if (kind != "user_output") {
      throw FormatError(text(
          "outputs of kind '{}' are not supported: export without run_decompositions()", kind));
    }
  }
  out.output_names = output_names(graph_module, out.graph.outputs.size());
  return out;
}

}  // namespace accel
