// LeNet: two rounds of convolution and pooling, then two linear layers.
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "core/error.h"
#include "core/model.h"
#include "core/registry.h"
#include "kernels/max_pool.h"
#include "models/fitted_model.h"
#include "models/sizes.h"

namespace accel {
namespace {

constexpr int64_t kLeNetKernel = 5;

struct LeNetOptions {
  Auto<Shape> image;
  std::vector<int64_t> filters = {20, 50};
  int64_t hidden = 500;
  Auto<int64_t> classes;
  double dropout = 0.0;
};

/// Pixels left along one side after one round.
int64_t after_round(int64_t side) {
  return (side - kLeNetKernel + 1) / 2;
}

class LeNetNet final : public torch::nn::Module {
 public:
  LeNetNet(const Shape& image, int64_t classes, const LeNetOptions& options)
      : dropout_(options.dropout) {
    const int64_t pixels = after_round(after_round(image[1])) * after_round(after_round(image[2]));
    using torch::nn::Conv2dOptions;
    conv1_ = register_module(
        "conv1", torch::nn::Conv2d(Conv2dOptions(image[0], options.filters[0], kLeNetKernel)));
    conv2_ = register_module("conv2", torch::nn::Conv2d(Conv2dOptions(
                                          options.filters[0], options.filters[1], kLeNetKernel)));
    fc1_ = register_module("fc1", torch::nn::Linear(options.filters[1] * pixels, options.hidden));
    fc2_ = register_module("fc2", torch::nn::Linear(options.hidden, classes));
  }

  at::Tensor forward(const at::Tensor& inputs) {
    at::Tensor x = max_pool(conv1_->forward(inputs).relu(), {2, 2});
    x = max_pool(conv2_->forward(x).relu(), {2, 2});
    x = fc1_->forward(x.flatten(1)).relu();
    return fc2_->forward(at::dropout(x, dropout_, is_training()));
  }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::Linear fc1_{nullptr}, fc2_{nullptr};
  double dropout_;
};

class LeNet final : public Model, public FittedModel {
 public:
  static constexpr auto kName = "lenet";
  static constexpr auto kSummary = "Two 5x5 convolutions with pooling, then two linear layers.";

  static Schema<LeNetOptions> schema() {
    return Schema<LeNetOptions>()
        .field("image", &LeNetOptions::image, "Channels, height and width of one image.")
        .on_resume(Change::kImpossible)
        .field("filters", &LeNetOptions::filters, "Filters of the two convolutions.",
               each(at_least<int64_t>(1)))
        .on_resume(Change::kImpossible)
        .field("hidden", &LeNetOptions::hidden, "Width of the hidden linear layer.",
               at_least<int64_t>(1))
        .on_resume(Change::kImpossible)
        .field("classes", &LeNetOptions::classes, "Labels to tell apart.",
               if_given<Auto>(at_least<int64_t>(2)))
        .on_resume(Change::kImpossible)
        .field("dropout", &LeNetOptions::dropout, "Chance of dropping a hidden unit.",
               within(0.0, 1.0))
        .check([](const LeNetOptions& options, const Node& node, Reading& reading) {
          if (options.filters.size() != 2) {
            reading.problems.error(node.where, "'filters' must be two numbers, not " +
                                                   std::to_string(options.filters.size()));
          }
          if (options.image && (*options.image).size() != 3) {
            reading.problems.error(node.where, "'image' must be three numbers, not " +
                                                   std::to_string((*options.image).size()));
          }
        });
  }

  LeNet(const LeNetOptions& options, const ModelContext& context) {
    const DataShape& data = context.data;
    want_images(kName, data);
    image_ = equal_shape(kName, "image", options.image, data.input);
    if (after_round(after_round(image_[1])) < 1 || after_round(after_round(image_[2])) < 1) {
      throw Error(ExitCode::kRecipe,
                  "the model 'lenet' wants images of at least 16 x 16 pixels, not " +
                      std::to_string(image_[1]) + " x " + std::to_string(image_[2]));
    }
    const int64_t classes = equal_size({kName, "classes", options.classes, data.classes});
    net_ = std::make_shared<LeNetNet>(image_, classes, options);
  }

  at::Tensor forward(const at::Tensor& inputs) override { return net_->forward(inputs); }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "classification"; }
  void check_samples(const DataShape& data) const override { check_one_shape(kName, image_, data); }

 private:
  Shape image_;
  std::shared_ptr<LeNetNet> net_;
};

const Register<LeNet> lenet;

}  // namespace
}  // namespace accel
