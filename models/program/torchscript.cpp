// A model saved by torch.jit.save, run by libtorch's TorchScript interpreter.
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include "core/api/model.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "models/program/batch_inputs.h"
#include "models/program/tensor_tree.h"

namespace accel {
namespace {

struct TorchScriptOptions {
  FilePath file;
  std::map<std::string, BatchPart> inputs;
  std::string output;
};

constexpr std::string_view kZipStart = "PK\x03\x04";

/// Checks that do not need libtorch.
void check_script_file(const std::string& path) {
  const SharedBytes file = map_file(path);
  if (as_text(file.view).starts_with(kZipStart)) return;
  throw Error(ExitCode::kRecipe, "the file is not TorchScript: it is not a zip archive",
              "torch.jit.script(module).save(FILE) writes such files");
}

torch::jit::Module load_script(const std::string& path) {
  try {
    return torch::jit::load(path, at::kCPU);
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    throw Error(ExitCode::kRecipe, accel::text("the file is not TorchScript: {}",
                                               message.substr(0, message.find('\n'))));
  }
}

class TorchScript final : public BatchModel {
 public:
  static constexpr auto kName = "torchscript";
  static constexpr auto kSummary =
      "A model as torch.jit.save writes it. Its code is run: only for files you trust.";

  static Schema<TorchScriptOptions> schema() {
    return Schema<TorchScriptOptions>()
        .field("file", &TorchScriptOptions::file, "The program and its weights.")
        .required()
        .on_resume(Change::kFree)
        .field("inputs", &TorchScriptOptions::inputs,
               "Batch part for each input of forward() by name, as in 'exported'.")
        .field("output", &TorchScriptOptions::output,
               "Which of several outputs is the model's: its key, or its number from 0; empty: "
               "the first of a tuple.")
        .check([](const TorchScriptOptions& options, const Node& node, Reading& reading) {
          try {
            check_script_file(options.file.text);
          } catch (const Error& error) {
            reading.problems.error(node.find("file")->node.where, error.what(), error.hint());
          }
        });
  }

  TorchScript(const TorchScriptOptions& options, const ModelContext& context);

  at::Tensor forward_batch(const Batch& batch) override;
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return task_; }

 private:
  at::Tensor chosen(const c10::IValue& output) const;

  torch::jit::Module script_;
  std::shared_ptr<TensorTree> net_ = std::make_shared<TensorTree>();
  std::vector<ProgramInput> inputs_;
  std::vector<BatchPart> parts_;
  std::string output_;
  const char* task_;
};

TorchScript::TorchScript(const TorchScriptOptions& options, const ModelContext& context)
    : script_(load_script(options.file.text)),
      output_(options.output),
      task_(task_of_data(context.data)) {
  try {
    for (const auto& item : script_.named_parameters()) net_->add_parameter(item.name, item.value);
    for (const auto& item : script_.named_buffers()) net_->add_buffer(item.name, item.value);
  } catch (const FormatError& error) {
    throw Error(ExitCode::kRecipe, accel::text("the TorchScript module: {}", error.what()));
  }
  const auto& arguments = script_.get_method("forward").function().getSchema().arguments();
  for (size_t i = 1; i < arguments.size(); ++i) {
    const bool named = options.inputs.contains(arguments[i].name());
    if (arguments[i].default_value() && !named) break;  // as may all further arguments
    inputs_.push_back({arguments[i].name(), at::kLong, {}});
  }
  parts_ = parts_for(inputs_, options.inputs);
}

at::Tensor TorchScript::forward_batch(const Batch& batch) {
  if (script_.is_training() != net_->is_training()) script_.train(net_->is_training());
  std::vector<c10::IValue> values;
  for (size_t i = 0; i < parts_.size(); ++i) {
    values.emplace_back(part_of(batch, parts_[i], inputs_[i]));
  }
  // Disables the graph optimizer: profiling would make the first steps differ from later ones.
  const torch::jit::GraphOptimizerEnabledGuard plain(false);
  try {
    return chosen(script_.forward(std::move(values)));
  } catch (const c10::Error& error) {
    if (is_out_of_memory(error)) throw;
    throw Error(ExitCode::kRecipe,
                accel::text("the TorchScript module fails: {}", error.what_without_backtrace()));
  }
}

at::Tensor TorchScript::chosen(const c10::IValue& output) const {
  if (output.isTensor() && output_.empty()) return output.toTensor();
  if (output.isTuple()) {
    const auto& values = output.toTupleRef().elements();
    for (size_t i = 0; i < values.size(); ++i) {
      const bool wanted = output_.empty() ? i == 0 : output_ == std::to_string(i);
      if (wanted && values[i].isTensor()) return values[i].toTensor();
    }
  }
  if (output.isGenericDict()) {
    for (const auto& item : output.toGenericDict()) {
      const bool wanted = item.key().isString() && item.key().toStringRef() == output_;
      if (wanted && item.value().isTensor()) return item.value().toTensor();
    }
  }
  const std::string kind = output.tagKind();
  throw Error(ExitCode::kRecipe,
              output_.empty()
                  ? accel::text("the TorchScript module returns a {} without a first tensor", kind)
                  : accel::text("the TorchScript module returns a {} whose '{}' is not a tensor",
                                kind, output_),
              "name the output in 'output': a key of a dict, or a number from 0 of a tuple");
}

const Register<TorchScript> torchscript;

}  // namespace
}  // namespace accel
