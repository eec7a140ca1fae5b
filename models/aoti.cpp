// A model that Python defined and TorchInductor compiled, forward and backward pass.
#include <ATen/ops/empty.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "core/build_info.h"
#include "core/error.h"
#include "core/registry.h"
#include "models/batch_inputs.h"
#include "models/compiled_passes.h"
#include "models/fitted_model.h"
#include "models/fixed_model.h"
#include "models/scalar_types.h"
#include "models/tensor_tree.h"
#include "runner/formats/code_file.h"

namespace accel {
namespace {

struct AotiOptions {
  FilePath file;
  std::map<std::string, BatchPart> inputs;
};

constexpr auto kHowToCompile = "'tools/export_model.py --aoti' writes such files";

/// "2.11" of "2.11.0".
std::string release_of(std::string_view version) {
  const size_t dot = version.find('.');
  return std::string(version.substr(0, dot == version.npos ? dot : version.find('.', dot + 1)));
}

/// All that can be told before the code runs. Throws Error (kRecipe).
CompiledModel read_compiled_file(const std::string& path) {
  CompiledModel model;
  try {
    model = read_compiled_model(map_file(path));
  } catch (const FormatError& error) {
    throw Error(ExitCode::kRecipe, std::string("the file is no compiled model: ") + error.what(),
                kHowToCompile);
  }
  check_code_writers(path);
  const std::string here(build_info().torch);
  if (release_of(model.torch) != release_of(here)) {
    throw Error(
        ExitCode::kRecipe,
        "the model was compiled by PyTorch " + model.torch + ", and this is libtorch " + here,
        "compile it with PyTorch " + release_of(here));
  }
  std::ifstream cpuinfo("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(cpuinfo), {}};
  const std::string missing = missing_extension(model.cpu, text);
  if (missing.empty()) return model;
  throw Error(ExitCode::kRecipe,
              "the model was compiled for a processor with '" + missing + "', which this one lacks",
              "compile it on a machine like this one");
}

at::Tensor tensor_of(const CompiledTensor& tensor) {
  at::Tensor out = at::empty(tensor.data.shape(), at::dtype(scalar_type_of(tensor.data.type())));
  if (tensor.data.bytes() > 0) {
    std::memcpy(out.mutable_data_ptr(), tensor.data.data(), tensor.data.bytes());
  }
  return out.requires_grad_(tensor.is_trained);
}

class Aoti final : public FixedModel, public FittedModel {
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
               "What of a batch each input of forward() is given, by name, as of 'exported'.")
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
  void check_samples(const DataShape& data) const override {
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
  check_samples(context.data);
  try {
    std::vector<at::Tensor> tensors = make_tensors(model);
    passes_ = std::make_unique<CompiledPasses>(std::move(model), std::move(tensors));
  } catch (const FormatError& error) {
    throw Error(ExitCode::kRecipe, std::string("the compiled model: ") + error.what());
  }
}

/// A tensor with several names is there under the first. Buffers that Python's state_dict() leaves
/// out are constants.
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
