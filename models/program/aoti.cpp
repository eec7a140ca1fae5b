// A Python model compiled by TorchInductor (AOTInductor), forward and backward pass.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner_cpu.h>
#include <torch/custom_class.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <vector>

#include "core/base/build_info.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "formats/program/code_file.h"
#include "formats/program/compiled_model.h"
#include "kernels/memory/deferred_init.h"
#include "models/layers/input_spec.h"
#include "models/program/batch_inputs.h"
#include "models/program/precompiled_model.h"
#include "models/program/tensor_tree.h"

namespace accel {
namespace {

class CompiledPasses {
 public:
  /// Loads the code, which runs its initializers. `tensors` are those of `model`, in its order;
  /// forward passes update the buffers among them. Throws Error (kRecipe) for code that cannot be
  /// loaded, IoError without space for it.
  CompiledPasses(CompiledModel model, std::vector<at::Tensor> tensors);
  ~CompiledPasses();

  /// The module's output, with autograd for the trained parameters. `inputs` are those of
  /// forward(), contiguous. Throws Error (kRecipe) if the code fails.
  at::Tensor train(const std::vector<at::Tensor>& inputs) const;
  at::Tensor evaluate(const std::vector<at::Tensor>& inputs) const;

  class State;

 private:
  c10::intrusive_ptr<State> state_;
};

namespace fs = std::filesystem;
using OperandKind = CompiledOperand::Kind;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Runner = torch::inductor::AOTIModelContainerRunnerCpu;

/// A private temporary folder, removed by the destructor.
class CodeFolder {
 public:
  CodeFolder() : path_((fs::temp_directory_path() / "accel-run-code-XXXXXX").string()) {
    if (!mkdtemp(path_.data())) {
      throw IoError(accel::text("cannot make a folder for code in '{}': {}",
                                fs::temp_directory_path().string(), std::strerror(errno)),
                    "point TMPDIR at one that can be written to");
    }
  }
  ~CodeFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  CodeFolder(const CodeFolder&) = delete;
  CodeFolder& operator=(const CodeFolder&) = delete;

  std::string write(const std::string& name, ByteSpan bytes) const {
    std::string path = path_ + "/" + name;
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out)
      throw IoError(accel::text("cannot write '{}'", path), "point TMPDIR at a disk with room");
    return path;
  }

 private:
  std::string path_;
};

[[noreturn]] void fail(const char* what, const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  throw Error(ExitCode::kRecipe,
              accel::text("the compiled {} pass fails: {}", what, text.substr(0, text.find('\n'))));
}

/// A loaded pass; its file can be removed.
class LoadedPass {
 public:
  LoadedPass(const char* name, const CompiledPass& pass) : name_(name) {
    const CodeFolder folder;
    const std::string code = folder.write("code.so", pass.code);
    if (!pass.table.empty()) folder.write("code.json", pass.table);
    try {
      runner_ = std::make_unique<Runner>(code, 1);
    } catch (const c10::Error& error) {
      fail(name, error);
    }
  }

  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, size_t outputs) const {
    std::vector<at::Tensor> made;
    try {
      made = runner_->boxed_run(std::move(inputs));
    } catch (const c10::Error& error) {
      if (is_out_of_memory(error)) throw;
      fail(name_, error);
    }
    if (made.size() == outputs) return made;
    throw Error(ExitCode::kRecipe, accel::text("the compiled {} pass returns {} values, not {}",
                                               name_, made.size(), outputs));
  }

 private:
  const char* name_;
  std::unique_ptr<Runner> runner_;
};

/// Shared state, held by autograd's graph.
class CompiledPasses::State final : public torch::CustomClassHolder {
 public:
  State(CompiledModel model, std::vector<at::Tensor> tensors)
      : model_(std::move(model)),
        tensors_(std::move(tensors)),
        forward_("forward", model_.forward),
        backward_("backward", model_.backward),
        evaluate_("evaluation's", model_.evaluate) {
    for (const CompiledOperand& output : model_.forward.outputs) {
      if (output.kind == OperandKind::kBuffer) updated_.insert(output.index);
    }
  }

  const CompiledModel& model() const { return model_; }

  /// The arguments of a forward pass, in order.
  std::vector<at::Tensor> arguments(const CompiledPass& pass,
                                    const std::vector<at::Tensor>& inputs) const {
    std::vector<at::Tensor> out;
    for (const CompiledOperand& item : pass.inputs) {
      out.push_back(item.kind == OperandKind::kTensor ? tensors_[item.index] : inputs[item.index]);
    }
    return out;
  }

  /// The output of a forward pass. Updates buffers, and stores the saved values in `kept`.
  at::Tensor run(bool training, std::vector<at::Tensor> arguments,
                 std::vector<at::Tensor>& kept) const {
    const at::NoGradGuard no_grad;
    const CompiledPass& pass = training ? model_.forward : model_.evaluate;
    std::vector<at::Tensor> made =
        (training ? forward_ : evaluate_).run(std::move(arguments), pass.outputs.size());
    at::Tensor output;
    for (size_t i = 0; i < made.size(); ++i) {
      const CompiledOperand& item = pass.outputs[i];
      if (item.kind == OperandKind::kOutput) output = made[i];
      if (item.kind == OperandKind::kBuffer) tensors_[item.index].copy_(made[i]);
      if (item.kind == OperandKind::kSaved) kept.push_back(made[i]);
    }
    return output;
  }

  /// The arguments of the backward pass besides the gradient, in order.
  std::vector<at::Tensor> saved(const std::vector<at::Tensor>& arguments,
                                const std::vector<at::Tensor>& kept) const {
    std::vector<at::Tensor> out;
    for (const CompiledOperand& item : model_.backward.inputs) {
      if (item.kind == OperandKind::kSaved) out.push_back(kept[item.index]);
      if (item.kind == OperandKind::kTensor || item.kind == OperandKind::kInput) {
        out.push_back(arguments[place_of(item)]);
      }
    }
    return out;
  }

  /// One per input of the forward pass; none for inputs without gradient.
  variable_list gradients(variable_list saved, const at::Tensor& output) const {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> inputs;
    size_t next = 0;
    for (const CompiledOperand& item : model_.backward.inputs) {
      inputs.push_back(item.kind == OperandKind::kOutput ? output.contiguous() : saved[next++]);
    }
    const auto& outputs = model_.backward.outputs;
    const std::vector<at::Tensor> made = backward_.run(std::move(inputs), outputs.size());
    variable_list out(model_.forward.inputs.size());
    for (size_t i = 0; i < made.size(); ++i) out[place_of(outputs[i])] = made[i];
    return out;
  }

  /// The value of a buffer that the forward pass replaces; otherwise undefined.
  at::Tensor replaced(size_t place) const {
    const CompiledOperand& item = model_.forward.inputs[place];
    const bool is_replaced = item.kind == OperandKind::kTensor && updated_.contains(item.index);
    return is_replaced ? tensors_[item.index].clone() : at::Tensor();
  }

 private:
  /// Index among the inputs of the forward pass.
  size_t place_of(const CompiledOperand& wanted) const {
    const auto& inputs = model_.forward.inputs;
    size_t place = 0;
    while (inputs[place].kind != wanted.kind || inputs[place].index != wanted.index) ++place;
    return place;
  }

  CompiledModel model_;
  std::vector<at::Tensor> tensors_;
  LoadedPass forward_, backward_, evaluate_;
  std::set<size_t> updated_;
};

constexpr auto kState = "passes";

class CompiledFunction : public torch::autograd::Function<CompiledFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, at::TensorList arguments,
                            const c10::intrusive_ptr<CompiledPasses::State>& state) {
    std::vector<at::Tensor> before = arguments.vec(), kept;
    for (size_t i = 0; i < before.size(); ++i) {
      const at::Tensor replaced = state->replaced(i);
      if (replaced.defined()) before[i] = replaced;
    }
    at::Tensor output = state->run(true, before, kept);
    context->save_for_backward(state->saved(before, kept));
    context->saved_data[kState] = c10::IValue::make_capsule(state);
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto state = c10::static_intrusive_pointer_cast<CompiledPasses::State>(
        context->saved_data[kState].toCapsule());
    variable_list out = state->gradients(context->get_saved_variables(), gradients.at(0));
    out.emplace_back();  // of the state
    return out;
  }
};

CompiledPasses::CompiledPasses(CompiledModel model, std::vector<at::Tensor> tensors)
    : state_(c10::make_intrusive<State>(std::move(model), std::move(tensors))) {}

CompiledPasses::~CompiledPasses() = default;

at::Tensor CompiledPasses::train(const std::vector<at::Tensor>& inputs) const {
  const std::vector<at::Tensor> all = state_->arguments(state_->model().forward, inputs);
  return CompiledFunction::apply(at::TensorList(all), state_);
}

at::Tensor CompiledPasses::evaluate(const std::vector<at::Tensor>& inputs) const {
  std::vector<at::Tensor> kept;
  return state_->run(false, state_->arguments(state_->model().evaluate, inputs), kept);
}

struct AotiOptions {
  FilePath file;
  std::map<std::string, BatchPart> inputs;
};

constexpr auto kHowToCompile = "'tools/export_model.py --aoti' writes such files";

/// "2.11" for "2.11.0".
std::string release_of(std::string_view version) {
  const size_t dot = version.find('.');
  return std::string(version.substr(0, dot == version.npos ? dot : version.find('.', dot + 1)));
}

/// All checks before the code runs. Throws Error (kRecipe).
CompiledModel read_compiled_file(const std::string& path) {
  CompiledModel model;
  try {
    model = read_compiled_model(map_file(path));
  } catch (const FormatError& error) {
    throw Error(ExitCode::kRecipe,
                accel::text("the file is not a compiled model: {}", error.what()), kHowToCompile);
  }
  check_code_writers(path);
  const std::string here(build_info().torch);
  if (release_of(model.torch) != release_of(here)) {
    throw Error(ExitCode::kRecipe,
                accel::text("the model was compiled by PyTorch {}, and this is libtorch {}",
                            model.torch, here),
                accel::text("compile it with PyTorch {}", release_of(here)));
  }
  std::ifstream cpuinfo("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(cpuinfo), {}};
  const std::string missing = missing_extension(model.cpu, text);
  if (missing.empty()) return model;
  throw Error(ExitCode::kRecipe,
              accel::text("the model was compiled for a processor with '{}', which this one lacks",
                          missing),
              "compile it on a machine like this one");
}

at::Tensor tensor_of(const CompiledTensor& tensor) {
  at::Tensor out = at::empty(tensor.data.shape(), at::dtype(scalar_type_of(tensor.data.type())));
  materialize(out);
  if (tensor.data.bytes() > 0) {
    std::memcpy(out.mutable_data_ptr(), tensor.data.data(), tensor.data.bytes());
  }
  return out.requires_grad_(tensor.is_trained);
}

class Aoti final : public PrecompiledModel, public InputSpec {
 public:
  static constexpr auto kName = "aoti";
  static constexpr auto kSummary =
      "A model of Python's as TorchInductor compiles it. Its code is run: only for files you "
      "trust.";

  static Schema<AotiOptions> schema() {
    return Schema<AotiOptions>()
        .field("file", &AotiOptions::file, "The compiled passes and the weights to start from.")
        .required()
        .on_resume(Change::kFree)
        .field("inputs", &AotiOptions::inputs,
               "Batch part for each input of forward() by name, as in 'exported'.")
        .check([](const AotiOptions& options, const Node& node, Reading& reading) {
          try {
            read_compiled_file(options.file.text);
          } catch (const Error& error) {
            reading.problems.error(node.find("file")->node.where, error.what(), error.hint());
          }
        });
  }

  Aoti(const AotiOptions& options, const ModelContext& context);

  at::Tensor forward_batch(const Batch& batch) override {
    std::vector<at::Tensor> given;
    for (size_t i = 0; i < parts_.size(); ++i) {
      given.push_back(part_of(batch, parts_[i], inputs_[i]).to(inputs_[i].type).contiguous());
    }
    return net_->is_training() ? passes_->train(given) : passes_->evaluate(given);
  }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return task_; }
  void validate_input(const DataShape& data) const override {
    for (size_t i = 0; i < inputs_.size(); ++i) check_program_input(inputs_[i], parts_[i], data);
  }

 private:
  std::vector<at::Tensor> make_tensors(const CompiledModel& model);

  std::shared_ptr<TensorTree> net_ = std::make_shared<TensorTree>();
  std::vector<ProgramInput> inputs_;
  std::vector<BatchPart> parts_;
  std::unique_ptr<CompiledPasses> passes_;
  const char* task_;
};

Aoti::Aoti(const AotiOptions& options, const ModelContext& context)
    : task_(task_of_data(context.data)) {
  CompiledModel model = read_compiled_file(options.file.text);
  for (const CompiledInput& input : model.inputs) {
    inputs_.push_back({input.name, scalar_type_of(input.type), input.sizes});
  }
  parts_ = parts_for(inputs_, options.inputs);
  validate_input(context.data);
  try {
    std::vector<at::Tensor> tensors = make_tensors(model);
    passes_ = std::make_unique<CompiledPasses>(std::move(model), std::move(tensors));
  } catch (const FormatError& error) {
    throw Error(ExitCode::kRecipe, accel::text("the compiled model: {}", error.what()));
  }
}

/// A tensor with several names is registered under the first. Buffers outside Python's state_dict()
/// are constants.
std::vector<at::Tensor> Aoti::make_tensors(const CompiledModel& model) {
  std::vector<at::Tensor> out;
  for (const CompiledTensor& tensor : model.tensors) {
    const bool is_new = tensor.same_as == out.size();
    out.push_back(is_new ? tensor_of(tensor) : out[tensor.same_as]);
    if (!is_new || !tensor.is_saved) continue;
    if (tensor.is_parameter) {
      net_->add_parameter(tensor.name, out.back());
    } else {
      net_->add_buffer(tensor.name, out.back());
    }
  }
  return out;
}

const Register<Aoti> aoti;

}  // namespace
}  // namespace accel
