// A model: layers whose activation is a sine (SIREN, Sitzmann et al., 2020), which follow fine
// detail better than straight pieces do.
//
// A model builds its modules in the constructor, from its options and the shape of the data, maps
// inputs to outputs, and names the task it is for. The weights, their names in checkpoints, the
// gradients and several ranks follow from module().
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <memory>
#include <vector>

#include "core/error.h"
#include "core/model.h"
#include "core/registry.h"

namespace accel {
namespace {

struct SineNetOptions {
  std::vector<int64_t> hidden = {64, 64};
  double frequency = 6.0;
};

class SineNetLayers final : public torch::nn::Module {
 public:
  /// `widths` go from the inputs to the outputs.
  SineNetLayers(const std::vector<int64_t>& widths, double frequency) : frequency_(frequency) {
    torch::nn::ModuleList list;
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      torch::nn::Linear layer(widths[i], widths[i + 1]);
      // So that what goes into each sine is spread alike, however many layers there are.
      const auto inputs = static_cast<double>(widths[i]);
      const double bound = i == 0 ? 1 / inputs : std::sqrt(6 / inputs) / frequency;
      torch::nn::init::uniform_(layer->weight, -bound, bound);
      list->push_back(layer);
      layers_.push_back(layer);
    }
    register_module("layers", list);
  }

  at::Tensor forward(const at::Tensor& inputs) {
    at::Tensor x = inputs.flatten(1);
    for (size_t i = 0; i + 1 < layers_.size(); ++i) {
      x = layers_[i]->forward(x).mul(frequency_).sin();
    }
    return layers_.back()->forward(x);
  }

 private:
  std::vector<torch::nn::Linear> layers_;
  double frequency_;
};

class SineNet final : public Model {
 public:
  static constexpr auto kName = "example/sine_net";
  static constexpr auto kSummary = "Linear layers with a sine between them.";

  static Schema<SineNetOptions> schema() {
    return Schema<SineNetOptions>()
        .field("hidden", &SineNetOptions::hidden, "Width of each hidden layer.",
               each(at_least<int64_t>(1)))
        .on_resume(Change::kImpossible)
        .field("frequency", &SineNetOptions::frequency,
               "What the input of each sine is multiplied by; more follows finer detail.",
               more_than(0.0));
  }

  SineNet(const SineNetOptions& options, const ModelContext& context)
      : numeric_(context.data.classes == 0) {
    const DataShape& data = context.data;
    if (data.input_type != DType::kF32) {
      throw Error(ExitCode::kRecipe, "'example/sine_net' wants numbers, not tokens",
                  "choose a dataset of numbers or images");
    }
    std::vector<int64_t> widths = {count_of(data.input)};
    widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
    widths.push_back(numeric_ ? count_of(data.target) : data.classes);
    layers_ = std::make_shared<SineNetLayers>(widths, options.frequency);
  }

  at::Tensor forward(const at::Tensor& inputs) override { return layers_->forward(inputs); }
  torch::nn::Module& module() override { return *layers_; }
  const char* default_task() const override { return numeric_ ? "regression" : "classification"; }

 private:
  std::shared_ptr<SineNetLayers> layers_;
  bool numeric_;
};

const Register<SineNet> sine_net;

}  // namespace
}  // namespace accel
