#include "formats/program/compiled_model.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/base/text.h"
#include "formats/archive/zip.h"
#include "formats/program/elf.h"
#include "formats/program/pt2_json.h"
#include "formats/strict_json.h"
#include "formats/tensors/safetensors.h"

namespace accel {
namespace {

using nlohmann::json;
using PassKind = CompiledOperand::Kind;

constexpr int64_t kFormat = 1;
constexpr int kTableDepth = 12;
constexpr auto kTable = "model.json";
constexpr auto kWeights = "model.safetensors";

/// A kind by its name in the table.
struct KindName {
  const char* name;
  PassKind kind;
  bool has_index;
};

constexpr KindName kTensorKind = {"tensor", PassKind::kTensor, true};
constexpr KindName kInputKind = {"input", PassKind::kInput, true};
constexpr KindName kOutputKind = {"output", PassKind::kOutput, false};
constexpr KindName kBufferKind = {"buffer", PassKind::kBuffer, true};
constexpr KindName kSavedKind = {"saved", PassKind::kSaved, true};
constexpr KindName kGradientKind = {"gradient", PassKind::kOutput, false};

using Kinds = std::vector<KindName>;

DType dtype_named(const std::string& name) {
  constexpr DType kTypes[] = {DType::kBool, DType::kU8,  DType::kI8,  DType::kI16, DType::kF16,
                              DType::kBF16, DType::kI32, DType::kF32, DType::kI64, DType::kF64};
  for (const DType type : kTypes) {
    if (name == name_of(type)) return type;
  }
  throw FormatError(text("the element type '{}' is not supported", name));
}

class CompiledReader {
 public:
  explicit CompiledReader(const SharedBytes& file)
      : zip_(file.view), budget_(file.view.size(), "the archive") {
    out_.file = file;
  }

  CompiledModel read() {
    zip_.check_data();
    const json table = parse_strict_json(as_text(entry(kTable)), kTable, kTableDepth, budget_);
    const int64_t format = pt2_integer(pt2_member(table, "format"), "format");
    if (format != kFormat) {
      throw FormatError(text("it has format version {}, {} wanted", format, kFormat));
    }
    out_.torch = pt2_text(pt2_member(table, "torch"), "torch");
    for (const json& flag : pt2_list(table, "cpu")) out_.cpu.push_back(pt2_text(flag, "cpu"));
    for (const json& input : pt2_list(table, "inputs")) read_input(input);
    for (const json& tensor : pt2_list(table, "tensors")) read_tensor(tensor);
    read_weights();
    const json& programs = pt2_member(table, "programs");
    out_.forward = read_pass(programs, "forward", {kTensorKind, kInputKind},
                             {kOutputKind, kBufferKind, kSavedKind});
    check_saved();
    out_.backward = read_pass(programs, "backward",
                              {kTensorKind, kInputKind, kSavedKind, kGradientKind}, {kTensorKind});
    out_.evaluate =
        read_pass(programs, "evaluate", {kTensorKind, kInputKind}, {kOutputKind, kBufferKind});
    check_outputs();
    return std::move(out_);
  }

 private:
  ByteSpan entry(const std::string& name) const {
    const auto found = zip_.entries().find(name);
    if (found != zip_.entries().end()) return found->second;
    throw FormatError(text("the archive has no '{}'", name));
  }

  void read_input(const json& json) {
    budget_.take(sizeof(CompiledInput));
    CompiledInput input;
    input.name = pt2_text(pt2_member(json, "name"), "name");
    input.type = dtype_named(pt2_text(pt2_member(json, "dtype"), "dtype"));
    for (const auto& range : pt2_list(json, "sizes")) {
      if (!range.is_array() || range.size() != 2)
        throw FormatError("a range of sizes is not a pair");
      const int64_t least = pt2_integer(range[0], "sizes");
      const int64_t most =
          range[1].is_null() ? std::numeric_limits<int64_t>::max() : pt2_integer(range[1], "sizes");
      if (least < 0 || most < least) throw FormatError("a range of sizes is empty");
      input.sizes.push_back({least, most});
    }
    out_.inputs.push_back(std::move(input));
  }

  void read_tensor(const json& json) {
    budget_.take(sizeof(CompiledTensor));
    CompiledTensor tensor;
    tensor.name = pt2_text(pt2_member(json, "name"), "name");
    const std::string kind = pt2_text(pt2_member(json, "kind"), "kind");
    if (kind != "parameter" && kind != "buffer") {
      throw FormatError(text("'{}' is a '{}', not a parameter or buffer", tensor.name, kind));
    }
    tensor.is_parameter = kind == "parameter";
    tensor.is_saved = pt2_flag(pt2_member(json, "saved"), "saved");
    tensor.is_trained = tensor.is_parameter && pt2_flag(pt2_member(json, "trained"), "trained");
    tensor.same_as = out_.tensors.size();
    if (json.contains("same_as")) {
      tensor.same_as = index_of(pt2_text(json["same_as"], "same_as"));
      const CompiledTensor& other = out_.tensors[tensor.same_as];
      if (other.same_as != tensor.same_as || other.is_parameter != tensor.is_parameter) {
        throw FormatError(text("'{}' cannot be an alias of '{}'", tensor.name, other.name));
      }
    }
    if (!indices_.emplace(tensor.name, out_.tensors.size()).second) {
      throw FormatError(text("two tensors are named '{}'", tensor.name));
    }
    out_.tensors.push_back(std::move(tensor));
  }

  size_t index_of(const std::string& name) const {
    const auto found = indices_.find(name);
    if (found == indices_.end()) throw FormatError(text("no tensor '{}'", name));
    return found->second;
  }

  void read_weights() {
    const SharedBytes weights = {entry(kWeights), out_.file.owner};
    for (NamedArray& item : read_safetensors(weights).tensors) {
      CompiledTensor& tensor = out_.tensors[index_of(item.name)];
      if (tensor.same_as != indices_.at(item.name)) {
        throw FormatError(text("'{}' is an alias, but has data", item.name));
      }
      tensor.data = std::move(item.array);
      dtype_named(name_of(tensor.data.type()));
      loaded_.insert(tensor.name);
    }
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      const CompiledTensor& tensor = out_.tensors[i];
      if (tensor.same_as != i || loaded_.contains(tensor.name)) continue;
      throw FormatError(text("'{}' has no data", tensor.name));
    }
  }

  CompiledPass read_pass(const json& programs, const char* name, const Kinds& inputs,
                         const Kinds& outputs) {
    const json& program = pt2_member(programs, name);
    CompiledPass pass;
    for (const json& item : pt2_list(program, "inputs")) {
      pass.inputs.push_back(read_operand(item, inputs, name));
    }
    for (const json& item : pt2_list(program, "outputs")) {
      pass.outputs.push_back(read_operand(item, outputs, name));
    }
    pass.code = entry(std::string(name) + ".so");
    const ElfFile code = read_elf(pass.code);
    if (code.type != kElfShared) {
      throw FormatError(text("'{}.so' is not a shared object", name));
    }
    if (code.machine != elf_machine_here()) {
      throw FormatError(text("it was compiled for {}, this machine is {}",
                             elf_machine_name(code.machine), elf_machine_name(elf_machine_here())));
    }
    const auto table = zip_.entries().find(std::string(name) + ".json");
    if (table != zip_.entries().end()) pass.table = table->second;
    return pass;
  }

  CompiledOperand read_operand(const json& item, const Kinds& kinds, const char* pass) {
    budget_.take(sizeof(CompiledOperand));
    if (!item.is_array() || item.empty()) throw FormatError("an operand is not a list");
    const std::string name = pt2_text(item[0], "kind");
    const auto found = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const KindName& kind) { return name == kind.name; });
    if (found == kinds.end() || item.size() != (found->has_index ? 2U : 1U)) {
      throw FormatError(text("the {} pass has an unexpected operand '{}'", pass, name));
    }
    return {found->kind, found->has_index ? index_in(item[1], *found) : 0};
  }

  size_t index_in(const json& value, const KindName& kind) const {
    if (kind.kind == PassKind::kTensor || kind.kind == PassKind::kBuffer) {
      const size_t index = index_of(pt2_text(value, kind.name));
      if (kind.kind == PassKind::kBuffer && out_.tensors[index].is_parameter) {
        throw FormatError(text("'{}' is not a buffer", out_.tensors[index].name));
      }
      return index;
    }
    const int64_t index = pt2_integer(value, kind.name);
    const size_t limit = kind.kind == PassKind::kInput ? out_.inputs.size() : saved_limit_;
    if (index < 0 || static_cast<size_t>(index) >= limit) {
      throw FormatError(text("no '{}' {}", kind.name, index));
    }
    return static_cast<size_t>(index);
  }

  /// Saved values are numbered in order, each once.
  void check_saved() {
    for (const CompiledOperand& output : out_.forward.outputs) {
      if (output.kind != PassKind::kSaved) continue;
      if (output.index != out_.saved++) throw FormatError("the saved values are not in order");
    }
    saved_limit_ = out_.saved;
  }

  void check_outputs() const {
    for (const CompiledPass* pass : {&out_.forward, &out_.evaluate}) {
      const auto is_output = [](const CompiledOperand& item) {
        return item.kind == PassKind::kOutput;
      };
      if (std::count_if(pass->outputs.begin(), pass->outputs.end(), is_output) != 1) {
        throw FormatError("a forward pass does not have exactly one output");
      }
    }
    std::set<size_t> seen;
    for (const CompiledOperand& output : out_.backward.outputs) {
      const CompiledTensor& tensor = out_.tensors[output.index];
      if (!tensor.is_trained) {
        throw FormatError(text("'{}' has a gradient, but is not trained", tensor.name));
      }
      if (!seen.insert(output.index).second) {
        throw FormatError(text("'{}' has two gradients", tensor.name));
      }
      const auto takes = [&](const CompiledOperand& item) {
        return item.kind == PassKind::kTensor && item.index == output.index;
      };
      if (std::none_of(out_.forward.inputs.begin(), out_.forward.inputs.end(), takes)) {
        throw FormatError(text("'{}' has a gradient, but is not used", tensor.name));
      }
    }
  }

  ZipReader zip_;
  MemoryBudget budget_;
  CompiledModel out_;
  std::map<std::string, size_t> indices_;
  std::set<std::string> loaded_;
  size_t saved_limit_ = std::numeric_limits<size_t>::max();
};

}  // namespace

CompiledModel read_compiled_model(const SharedBytes& file) {
  return CompiledReader(file).read();
}

std::string missing_extension(const std::vector<std::string>& wanted, const std::string& cpuinfo) {
  std::istringstream lines(cpuinfo);
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    const std::set<std::string> here{std::istream_iterator<std::string>(words), {}};
    const auto missing = std::find_if(wanted.begin(), wanted.end(),
                                      [&](const auto& flag) { return !here.contains(flag); });
    return missing == wanted.end() ? "" : *missing;
  }
  return {};
}

}  // namespace accel
