#include "models/compiled_passes.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner_cpu.h>
#include <torch/custom_class.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/error.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using OperandKind = CompiledOperand::Kind;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Runner = torch::inductor::AOTIModelContainerRunnerCpu;

/// A new folder that only this user can look into, gone with the object.
class CodeFolder {
 public:
  CodeFolder() : path_((fs::temp_directory_path() / "accel-run-code-XXXXXX").string()) {
    if (!mkdtemp(path_.data())) {
      throw IoError("cannot make a folder for code in '" + fs::temp_directory_path().string() +
                        "': " + std::strerror(errno),
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
    if (!out) throw IoError("cannot write '" + path + "'", "point TMPDIR at a disk with room");
    return path;
  }

 private:
  std::string path_;
};

[[noreturn]] void fail(const char* what, const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  throw Error(ExitCode::kRecipe, std::string("the compiled ")
                                     .append(what)
                                     .append(" pass fails: ")
                                     .append(text.substr(0, text.find('\n'))));
}

/// One pass, loaded. What it was loaded from is not needed any more.
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
    throw Error(ExitCode::kRecipe, std::string("the compiled ") + name_ + " pass gives " +
                                       std::to_string(made.size()) + " values, not " +
                                       std::to_string(outputs));
  }

 private:
  const char* name_;
  std::unique_ptr<Runner> runner_;
};

}  // namespace

/// Everything, in a form that autograd's graph can hold on to.
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

  /// What a forward pass takes, in its order.
  std::vector<at::Tensor> arguments(const CompiledPass& pass,
                                    const std::vector<at::Tensor>& inputs) const {
    std::vector<at::Tensor> out;
    for (const CompiledOperand& item : pass.inputs) {
      out.push_back(item.kind == OperandKind::kTensor ? tensors_[item.index] : inputs[item.index]);
    }
    return out;
  }

  /// The output of a forward pass. Buffers get their new values, and `kept` what is kept.
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
      if (item.kind == OperandKind::kKept) kept.push_back(made[i]);
    }
    return output;
  }

  /// What the backward pass takes besides the gradient, in its order.
  std::vector<at::Tensor> saved(const std::vector<at::Tensor>& arguments,
                                const std::vector<at::Tensor>& kept) const {
    std::vector<at::Tensor> out;
    for (const CompiledOperand& item : model_.backward.inputs) {
      if (item.kind == OperandKind::kKept) out.push_back(kept[item.index]);
      if (item.kind == OperandKind::kTensor || item.kind == OperandKind::kInput) {
        out.push_back(arguments[place_of(item)]);
      }
    }
    return out;
  }

  /// By the forward pass's inputs; none for those without.
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

  /// A buffer's value that a forward pass is about to replace, or nothing.
  at::Tensor replaced(size_t place) const {
    const CompiledOperand& item = model_.forward.inputs[place];
    const bool is_replaced = item.kind == OperandKind::kTensor && updated_.contains(item.index);
    return is_replaced ? tensors_[item.index].clone() : at::Tensor();
  }

 private:
  /// Among the inputs of the forward pass.
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

namespace {

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

}  // namespace

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

}  // namespace accel
