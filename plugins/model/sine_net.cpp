// A model: linear layers with a sine as activation (SIREN, Sitzmann et al., 2020), which represent
// fine detail better than piecewise linear activations do.
//
// A model creates its modules in the constructor, from its options and the shape of the data, maps
// inputs to outputs, and names its default task. The optimizer, checkpoints and the strategy of
// several ranks use module(); activation checkpointing uses its blocks.
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <memory>
#include <vector>

#include "core/api/block.h"
#include "core/api/model.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct SineNetOptions {
  std::vector<int64_t> hidden_sizes = {64, 64};
  double frequency = 6.0;
};

/// A linear layer and its sine. A Block, so that `train.activation_checkpointing` works.
class SineLayer final : public torch::nn::LinearImpl, public Block {
 public:
  SineLayer(int64_t inputs, int64_t outputs, double frequency)
      : LinearImpl(inputs, outputs), frequency_(frequency) {}
  at::Tensor forward(const at::Tensor& x) { return LinearImpl::forward(x).mul(frequency_).sin(); }

 private:
  double frequency_;
};

class SineNetLayers final : public torch::nn::Module {
 public:
  /// `sizes`: the features of the inputs, of each hidden layer and of the outputs.
  SineNetLayers(const std::vector<int64_t>& sizes, double frequency) {
    torch::nn::ModuleList list;
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
      const bool is_last = i + 2 == sizes.size();
      if (is_last) {
        output_ = torch::nn::Linear(sizes[i], sizes[i + 1]);
        list->push_back(output_);
      } else {
        hidden_.push_back(std::make_shared<SineLayer>(sizes[i], sizes[i + 1], frequency));
        list->push_back(hidden_.back());
      }
      // Keeps the variance of the sines' inputs the same in every layer.
      const auto inputs = static_cast<double>(sizes[i]);
      const double bound = i == 0 ? 1 / inputs : std::sqrt(6 / inputs) / frequency;
      torch::nn::init::uniform_(is_last ? output_->weight : hidden_.back()->weight, -bound, bound);
    }
    register_module("layers", list);
  }

  at::Tensor forward(const at::Tensor& inputs) {
    at::Tensor x = inputs.flatten(1);
    for (const auto& layer : hidden_) x = run_block(*layer, x);
    return output_->forward(x);
  }

 private:
  std::vector<std::shared_ptr<SineLayer>> hidden_;
  torch::nn::Linear output_{nullptr};
};

class SineNet final : public Model {
 public:
  static constexpr auto kName = "example/sine_net";
  static constexpr auto kSummary = "Linear layers with a sine between them.";

  static Schema<SineNetOptions> schema() {
    return Schema<SineNetOptions>()
        .field("hidden_sizes", &SineNetOptions::hidden_sizes, "Width of each hidden layer.",
               each(at_least<int64_t>(1)))
        .on_resume(Change::kImpossible)
        .renamed_from("hidden")
        .field("frequency", &SineNetOptions::frequency,
               "Factor of the input of each sine; a higher one fits finer detail.", more_than(0.0));
  }

  SineNet(const SineNetOptions& options, const ModelContext& context)
      : numeric_(context.data.classes == 0) {
    const DataShape& data = context.data;
    if (data.input_type != DType::kF32) {
      throw Error(ExitCode::kRecipe, "'example/sine_net' wants numbers, not tokens",
                  "choose a dataset of numbers or images");
    }
    std::vector<int64_t> widths = {count_of(data.input)};
    widths.insert(widths.end(), options.hidden_sizes.begin(), options.hidden_sizes.end());
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
