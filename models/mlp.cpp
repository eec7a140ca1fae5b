// Multi-layer perceptron; flattens its inputs.
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>

#include "core/api/model.h"
#include "core/recipe/registry.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/input_spec.h"
#include "models/layers/sizes.h"

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
  std::vector<int64_t> hidden_sizes = {128};
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
  /// `widths`: layer sizes from inputs to outputs.
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
  std::vector<AdaptedLinear> layers_;
  Activation activation_;
  double dropout_;
};

class Mlp final : public Model, public InputSpec {
 public:
  static constexpr auto kName = "mlp";
  static constexpr auto kSummary = "Linear layers with an activation between them.";

  static Schema<MlpOptions> schema() {
    return Schema<MlpOptions>()
        .field("inputs", &MlpOptions::inputs, "Numbers in one sample.",
               if_given<Auto>(at_least<int64_t>(1)))
        .on_resume(Change::kImpossible)
        .hint_for({"in_features", "input_size", "input_dim"})
        .field("hidden_sizes", &MlpOptions::hidden_sizes, "Width of each hidden layer.",
               each(at_least<int64_t>(1)))
        .on_resume(Change::kImpossible)
        .renamed_from("hidden")
        .hint_for(
            {"hidden_size", "hidden_dim", "hidden_dims", "hidden_layer_sizes", "hidden_units"})
        .field("outputs", &MlpOptions::outputs, "Classes, or numbers to predict.",
               if_given<Auto>(at_least<int64_t>(1)))
        .on_resume(Change::kImpossible)
        .hint_for({"num_classes", "num_labels", "n_classes", "out_features", "output_size"})
        .field("activation", &MlpOptions::activation, "Activation of the hidden layers.")
        .field("dropout", &MlpOptions::dropout, "Chance of dropping a hidden unit.",
               within(0.0, 1.0));
  }

  Mlp(const MlpOptions& options, const ModelContext& context)
      : input_(context.data.input), numeric_(has_numeric_targets(context.data)) {
    const DataShape& data = context.data;
    want_numbers(kName, data);
    const int64_t features = data.input.empty() ? 0 : count_of(data.input);
    std::vector<int64_t> widths = {equal_size({kName, "inputs", options.inputs, features})};
    widths.insert(widths.end(), options.hidden_sizes.begin(), options.hidden_sizes.end());
    widths.push_back(equal_size({kName, "outputs", options.outputs, output_count(data)}));
    net_ = std::make_shared<MlpNet>(widths, options.activation, options.dropout);
  }

  at::Tensor forward(const at::Tensor& inputs) override { return net_->forward(inputs); }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return numeric_ ? "regression" : "classification"; }
  void validate_input(const DataShape& data) const override {
    check_one_shape(kName, input_, data);
  }

 private:
  Shape input_;
  std::shared_ptr<MlpNet> net_;
  bool numeric_;
};

const Register<Mlp> mlp;

}  // namespace
}  // namespace accel
