// A Python model exported by torch.export; its graph runs here without Python.
#include <ATen/ops/empty.h>

#include <cstring>
#include <optional>
#include <set>

#include "core/api/model.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "kernels/memory/deferred_init.h"
#include "models/hf/hf_weights.h"
#include "models/layers/input_spec.h"
#include "models/lora/lora_folder.h"
#include "models/lora/program_lora.h"
#include "models/program/aten_graph.h"
#include "models/program/batch_inputs.h"
#include "models/program/tensor_tree.h"

namespace accel {
namespace {

struct ExportedOptions {
  FilePath file;
  std::map<std::string, BatchPart> inputs;
  std::string output;
  LoraOptions lora;
};

constexpr auto kHowToExport = "'tools/export_model.py' writes such files";

Pt2File read_exported(const std::string& path) {
  try {
    return read_pt2(map_file(path));
  } catch (const FormatError& error) {
    throw Error(ExitCode::kRecipe,
                accel::text("the file is not an exported program: {}", error.what()), kHowToExport);
  }
}

/// The training program, and the evaluation program if the file has one.
struct ExportedPrograms {
  Pt2Program train;
  std::optional<Pt2Program> eval;
};

ExportedPrograms programs_of(const Pt2File& file) {
  const auto train = file.programs.find("train"), eval = file.programs.find("eval");
  if (file.programs.size() == 1) {
    return {file.programs.begin()->second, std::nullopt};
  }
  if (file.programs.size() == 2 && train != file.programs.end() && eval != file.programs.end()) {
    return {train->second, eval->second};
  }
  std::vector<std::string> names;
  for (const auto& [name, program] : file.programs) names.push_back(name);
  throw Error(ExitCode::kRecipe,
              accel::text("the file has the programs {}; it must have one, or 'train' and 'eval'",
                          quoted_list(names)),
              kHowToExport);
}

/// The tensors of a file, created on demand. Shared storage stays shared.
class ExportedTensors {
 public:
  explicit ExportedTensors(const Pt2File& file) : file_(file) {}

  /// Adds a tensor that is not in the file.
  void add(const Parameter& item) { by_name_.emplace(item.name, item.local); }

  const at::Tensor& named(const std::string& name) {
    const auto known = by_name_.find(name);
    if (known != by_name_.end()) return known->second;
    const Pt2Tensor& tensor = file_.tensors.at(name);
    for (const auto& [other, made] : by_name_) {
      const auto found = file_.tensors.find(other);
      if (found == file_.tensors.end()) continue;
      if (same(found->second, tensor)) return by_name_.emplace(name, made).first->second;
    }
    at::Tensor made = at::empty({0}, at::dtype(scalar_type_of(tensor.type)));
    made.set_(bytes_of(tensor).storage(), tensor.offset, tensor.sizes, tensor.strides);
    made.requires_grad_(tensor.requires_grad);
    return by_name_.emplace(name, made).first->second;
  }

 private:
  static bool same(const Pt2Tensor& a, const Pt2Tensor& b) {
    return a.storage == b.storage && a.type == b.type && a.sizes == b.sizes &&
           a.strides == b.strides && a.offset == b.offset;
  }

  const at::Tensor& bytes_of(const Pt2Tensor& tensor) {
    at::Tensor& bytes = storages_[tensor.storage];
    if (bytes.defined()) return bytes;
    bytes = at::empty({static_cast<int64_t>(tensor.bytes.size())}, at::dtype(at::kByte));
    write_rows(bytes,
               [file = file_.file, from = tensor.bytes](const at::Tensor& to, int64_t first) {
                 const ByteSpan piece = from.subspan(static_cast<size_t>(first), to.nbytes());
                 std::memcpy(to.mutable_data_ptr(), piece.data(), piece.size());
                 forget_pages(file, piece);
               });
    return bytes;
  }

  const Pt2File& file_;
  std::map<std::string, at::Tensor> by_name_, storages_;
};

/// A program with its tensors bound, and the conversion of batches and outputs.
class BoundProgram {
 public:
  BoundProgram(const Pt2Program& program, const ExportedOptions& options, ExportedTensors& tensors)
      : graph_(program.graph) {
    std::vector<ProgramInput> wanted;
    for (const Pt2Input& input : program.inputs) {
      const bool tensor = input.kind == Pt2Input::Kind::kUser && input.value.as<Pt2Slot>();
      if (tensor) {
        places_.push_back(values_.size());
        const Pt2Code code = {Pt2Code::Kind::kScalarType, input.meta.dtype};
        wanted.push_back(
            {input.name, static_cast<at::ScalarType>(aten_code(code)), input.meta.sizes});
      }
      const bool bound = input.kind != Pt2Input::Kind::kUser;
      values_.push_back(bound ? c10::IValue(tensors.named(input.name)) : c10::IValue());
    }
    inputs_ = std::move(wanted);
    parts_ = parts_for(inputs_, options.inputs);
    choose_output(program.output_names, options.output);
  }

  std::vector<std::shared_ptr<ProgramBlock>> find_blocks() { return graph_.find_blocks(); }

  void check(const DataShape& data) const {
    for (size_t i = 0; i < inputs_.size(); ++i) check_program_input(inputs_[i], parts_[i], data);
  }

  at::Tensor run(const Batch& batch) const {
    std::vector<c10::IValue> values = values_;
    for (size_t i = 0; i < parts_.size(); ++i) {
      values[places_[i]] = part_of(batch, parts_[i], inputs_[i]);
    }
    const c10::IValue output = std::move(graph_.run(std::move(values)).at(output_));
    if (!output.isTensor()) {
      throw Error(ExitCode::kRecipe,
                  accel::text("the program's output '{}' is not a tensor", output_name_),
                  "name another one in 'output'");
    }
    return output.toTensor();
  }

 private:
  void choose_output(const std::vector<std::string>& names, const std::string& chosen) {
    output_name_ = chosen.empty() && !names.empty() ? names[0] : chosen;
    const auto found = std::find(names.begin(), names.end(), output_name_);
    if (found == names.end()) {
      throw Error(ExitCode::kRecipe, accel::text("the program has no output '{}'", output_name_),
                  names.empty() ? "" : accel::text("it has {}", quoted_list(names)));
    }
    output_ = static_cast<size_t>(found - names.begin());
  }

  AtenGraph graph_;
  std::vector<c10::IValue> values_;  ///< inputs of the graph, without those of a batch
  std::vector<size_t> places_;       ///< positions of the batch's inputs
  std::vector<ProgramInput> inputs_;
  std::vector<BatchPart> parts_;
  std::string output_name_;
  size_t output_ = 0;
};

class Exported final : public BatchModel, public InputSpec {
 public:
  static constexpr auto kName = "exported";
  static constexpr auto kSummary =
      "A model defined in Python, as torch.export writes it; runs without Python.";

  static Schema<ExportedOptions> schema() {
    return Schema<ExportedOptions>()
        .field("file", &ExportedOptions::file, "The program and its weights, a .pt2 file.")
        .required()
        .on_resume(Change::kFree)
        .field("inputs", &ExportedOptions::inputs,
               "Batch part for each input of the program, by its name in forward(): inputs, mask, "
               "lengths or segments. Defaults: inputs for the first one, and the parts of "
               "transformers' names.")
        .field("output", &ExportedOptions::output,
               "Which of several outputs is the model's: its key, or its number from 0; empty: "
               "the first.")
        .field("lora", &ExportedOptions::lora,
               "A low-rank adapter for the program's linear layers, including the head unless "
               "'target_modules' excludes it; other weights are frozen.")
        .check([](const ExportedOptions& options, const Node& node, Reading& reading) {
          try {
            programs_of(read_exported(options.file.text));
          } catch (const Error& error) {
            reading.problems.error(node.find("file")->node.where, error.what(), error.hint());
          }
        });
  }

  Exported(const ExportedOptions& options, const ModelContext& context);

  /// Checks evaluation data; training data is checked when the model is built.
  void validate_input(const DataShape& data) const override { eval_->check(data); }
  at::Tensor forward_batch(const Batch& batch) override {
    return (net_->is_training() ? train_ : eval_)->run(batch);
  }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return task_; }

 private:
  void add_tensors(const Pt2Program& program, ExportedTensors& tensors);
  static ExportedPrograms adapted(ExportedPrograms programs, const Pt2File& file,
                                  const LoraOptions& lora, ExportedTensors& tensors);

  std::shared_ptr<TensorTree> net_ = std::make_shared<TensorTree>();
  std::unique_ptr<BoundProgram> train_, eval_;
  std::set<std::string> names_;
  const char* task_;
};

Exported::Exported(const ExportedOptions& options, const ModelContext& context)
    : task_(task_of_data(context.data)) {
  const DataShape& data = context.data;
  const Pt2File file = read_exported(options.file.text);
  ExportedTensors tensors(file);
  try {
    check_pt2(file.file);
    forget_pages(file.file, file.file.view);
    const ExportedPrograms programs = adapted(programs_of(file), file, options.lora, tensors);
    const Pt2Program& train = programs.train;
    const Pt2Program eval = programs.eval.value_or(evaluation_of(train));
    train_ = std::make_unique<BoundProgram>(train, options, tensors);
    eval_ = std::make_unique<BoundProgram>(eval, options, tensors);
    add_tensors(train, tensors);
    add_tensors(eval, tensors);
    // A name that Python does not use.
    size_t number = 0;
    for (auto& block : train_->find_blocks()) {
      net_->register_module("block " + std::to_string(number++), std::move(block));
    }
  } catch (const FormatError& error) {
    throw Error(ExitCode::kRecipe, accel::text("the exported program: {}", error.what()));
  }
  train_->check(data);
  eval_->check(data);
}

ExportedPrograms Exported::adapted(ExportedPrograms programs, const Pt2File& file,
                                   const LoraOptions& lora, ExportedTensors& tensors) {
  if (lora.rank == 0) return programs;
  std::vector<Parameter> parameters, buffers;
  for (const Pt2Input& input : programs.train.inputs) {
    const bool is_buffer = input.kind == Pt2Input::Kind::kBuffer && input.persistent;
    if (!is_buffer && input.kind != Pt2Input::Kind::kParameter) continue;
    (is_buffer ? buffers : parameters).push_back({input.name, tensors.named(input.name)});
  }
  train_adapters_only(parameters, buffers, lora);
  const auto adapters = make_adapters(linears_of(programs.train, file), lora);
  std::vector<Parameter> own = std::move(parameters);
  own.insert(own.end(), buffers.begin(), buffers.end());
  load_program_adapter(adapters, own, lora);
  for (const Parameter& item : adapters) tensors.add(item);
  programs.train = with_adapters(std::move(programs.train), adapters, lora);
  if (!programs.eval) return programs;
  LoraOptions without_dropout = lora;
  without_dropout.dropout = 0;
  programs.eval = with_adapters(std::move(*programs.eval), adapters, without_dropout);
  return programs;
}

/// Buffers outside Python's state_dict() are constants of the program, as are all other inputs that
/// no batch provides.
void Exported::add_tensors(const Pt2Program& program, ExportedTensors& tensors) {
  for (const Pt2Input& input : program.inputs) {
    if (input.kind == Pt2Input::Kind::kParameter && names_.insert(input.name).second) {
      net_->add_parameter(input.name, tensors.named(input.name));
    }
    if (input.kind == Pt2Input::Kind::kUser || !names_.insert(input.name).second) continue;
    if (input.kind == Pt2Input::Kind::kBuffer && input.persistent) {
      net_->add_buffer(input.name, tensors.named(input.name));
    } else {
      net_->add_constant(tensors.named(input.name));
    }
  }
}

/// As Register<T>, with the options of an adapter folder.
class RegisterExported : Registration {
 public:
  RegisterExported() : Registration(&enter) {}

 private:
  static void enter(Registry& registry) {
    registry.of<Model>().add({Exported::kName, Exported::kSummary, Exported::schema().info()},
                             &prepare);
  }

  static Ref<Model> prepare(const Node& node, Reading& reading) {
    const auto schema = Exported::schema();
    const size_t before = reading.problems.size();
    ExportedOptions options = schema.read(detail::without_type(node), reading);
    if (reading.problems.size() != before) return {};
    if (const Node::Entry* lora = node.find("lora")) {
      options.lora = with_adapter(options.lora, HfNames(), lora->node, reading);
    }
    if (reading.problems.size() != before) return {};
    return {Exported::kName, detail::with_type(Exported::kName, schema.write(options, &node), node),
            [options](const ModelContext& context) -> std::unique_ptr<Model> {
              return std::make_unique<Exported>(options, context);
            }};
  }
};

const RegisterExported exported;

}  // namespace
}  // namespace accel
