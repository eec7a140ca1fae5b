// LeNet: two convolutions with pooling, then two linear layers.
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "core/api/model.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "kernels/max_pool.h"
#include "models/layers/input_spec.h"
#include "models/layers/sizes.h"

namespace accel {
namespace {

constexpr int64_t kLeNetKernel = 5;

struct LeNetOptions {
  Auto<Shape> image;
  std::vector<int64_t> filters = {20, 50};
  int64_t hidden_size = 500;
  Auto<int64_t> num_classes;
  double dropout = 0.0;
};

/// Image side after one convolution with pooling.
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
    fc1_ =
        register_module("fc1", torch::nn::Linear(options.filters[1] * pixels, options.hidden_size));
    fc2_ = register_module("fc2", torch::nn::Linear(options.hidden_size, classes));
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

class LeNet final : public Model, public InputSpec {
 public:
  static constexpr auto kName = "lenet";
  static constexpr const char* kHintFor[] = {"lenet5", "cnn"};
  static constexpr auto kSummary = "Two 5x5 convolutions with pooling, then two linear layers.";

  static Schema<LeNetOptions> schema() {
    return Schema<LeNetOptions>()
        .field("image", &LeNetOptions::image, "Channels, height and width of one image.")
        .on_resume(Change::kImpossible)
        .field("filters", &LeNetOptions::filters, "Filters of the two convolutions.",
               each(at_least<int64_t>(1)))
        .on_resume(Change::kImpossible)
        .field("hidden_size", &LeNetOptions::hidden_size, "Width of the hidden linear layer.",
               at_least<int64_t>(1))
        .on_resume(Change::kImpossible)
        .renamed_from("hidden")
        .field("num_classes", &LeNetOptions::num_classes, "Number of classes.",
               if_given<Auto>(at_least<int64_t>(2)))
        .on_resume(Change::kImpossible)
        .renamed_from("classes")
        .hint_for({"num_labels", "n_classes", "nb_classes"})
        .field("dropout", &LeNetOptions::dropout, "Chance of dropping a hidden unit.",
               within(0.0, 1.0))
        .check([](const LeNetOptions& options, const Node& node, Reading& reading) {
          if (options.filters.size() != 2) {
            reading.problems.error(
                node.where, text("'filters' must be two numbers, not {}", options.filters.size()));
          }
          if (options.image && (*options.image).size() != 3) {
            reading.problems.error(
                node.where, text("'image' must be three numbers, not {}", (*options.image).size()));
          }
        });
  }

  LeNet(const LeNetOptions& options, const ModelContext& context) {
    const DataShape& data = context.data;
    want_images(kName, data);
    image_ = equal_shape(kName, "image", options.image, data.input);
    if (after_round(after_round(image_[1])) < 1 || after_round(after_round(image_[2])) < 1) {
      throw Error(ExitCode::kRecipe,
                  text("the model 'lenet' requires images of at least 16 x 16 pixels, not {} x {}",
                       image_[1], image_[2]));
    }
    const int64_t classes = equal_size({kName, "num_classes", options.num_classes, data.classes});
    net_ = std::make_shared<LeNetNet>(image_, classes, options);
  }

  at::Tensor forward(const at::Tensor& inputs) override { return net_->forward(inputs); }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "classification"; }
  void validate_input(const DataShape& data) const override {
    check_one_shape(kName, image_, data);
  }

 private:
  Shape image_;
  std::shared_ptr<LeNetNet> net_;
};

const Register<LeNet> lenet;

}  // namespace
}  // namespace accel
