// A multi-layer perceptron for inputs of any shape, which it flattens.
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>

#include "core/model.h"
#include "core/registry.h"
#include "models/fitted_model.h"
#include "models/sizes.h"

namespace accel {
namespace {
enum class Activation { kRelu, kGelu, kTanh };
}  // namespace

template <>
struct EnumNames<Activation> {
  static constexpr std::pair<Activation, const char*> kValues[] = {
      {Activation::kRelu, "relu"}, {Activation::kGelu, "gelu"}, {Activation::kTanh, "tanh"}};
};

namespace {

struct MlpOptions {
  Auto<int64_t> inputs;
  std::vector<int64_t> hidden = {128};
  Auto<int64_t> outputs;
  Activation activation = Activation::kRelu;
  double dropout = 0.0;
};

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kTanh:
      return x.tanh();
    default:
      return x.relu();
  }
}

class MlpNet final : public torch::nn::Module {
 public:
  /// `widths` go from the inputs to the outputs.
  MlpNet(const std::vector<int64_t>& widths, Activation activation, double dropout)
      : activation_(activation), dropout_(dropout) {
    torch::nn::ModuleList list;
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      layers_.emplace_back(widths[i], widths[i + 1]);
      list->push_back(layers_.back());
    }
    register_module("layers", list);
  }

  at::Tensor forward(const at::Tensor& inputs) {
    at::Tensor x = inputs.flatten(1);
    for (size_t i = 0; i + 1 < layers_.size(); ++i) {
      x = at::dropout(activate(activation_, layers_[i]->forward(x)), dropout_, is_training());
    }
    return layers_.back()->forward(x);
  }

 private:
  std::vector<torch::nn::Linear> layers_;
  Activation activation_;
  double dropout_;
};

class Mlp final : public Model, public FittedModel {
 public:
  static constexpr auto kName = "mlp";
  static constexpr auto kSummary = "Linear layers with an activation between them.";

  static Schema<MlpOptions> schema() {
    return Schema<MlpOptions>()
        .field("inputs", &MlpOptions::inputs, "Numbers in one sample.",
               if_given<Auto>(at_least<int64_t>(1)))
        .on_resume(Change::kImpossible)
        .field("hidden", &MlpOptions::hidden, "Width of each hidden layer.",
               each(at_least<int64_t>(1)))
        .on_resume(Change::kImpossible)
        .field("outputs", &MlpOptions::outputs, "Classes, or numbers to predict.",
               if_given<Auto>(at_least<int64_t>(1)))
        .on_resume(Change::kImpossible)
        .field("activation", &MlpOptions::activation, "What follows each hidden layer.")
        .field("dropout", &MlpOptions::dropout, "Chance of dropping a hidden unit.",
               within(0.0, 1.0));
  }

  Mlp(const MlpOptions& options, const ModelContext& context)
      : input_(context.data.input), numeric_(has_numeric_targets(context.data)) {
    const DataShape& data = context.data;
    want_numbers(kName, data);
    const int64_t features = data.input.empty() ? 0 : count_of(data.input);
    std::vector<int64_t> widths = {equal_size({kName, "inputs", options.inputs, features})};
    widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
    widths.push_back(equal_size({kName, "outputs", options.outputs, output_count(data)}));
    net_ = std::make_shared<MlpNet>(widths, options.activation, options.dropout);
  }

  at::Tensor forward(const at::Tensor& inputs) override { return net_->forward(inputs); }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return numeric_ ? "regression" : "classification"; }
  void check_samples(const DataShape& data) const override { check_one_shape(kName, input_, data); }

 private:
  Shape input_;
  std::shared_ptr<MlpNet> net_;
  bool numeric_;
};

const Register<Mlp> mlp;

}  // namespace
}  // namespace accel
