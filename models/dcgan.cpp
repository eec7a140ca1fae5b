// DCGAN: generator and discriminator of Radford, Metz and Chintala (ICLR 2016).
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>

#include "core/api/model.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "models/layers/batch_norm.h"
#include "models/layers/input_spec.h"
#include "models/layers/sizes.h"

namespace accel {
namespace {

constexpr double kDcganSpread = 0.02;  ///< standard deviation of initial weights
constexpr double kDcganLeak = 0.2;
constexpr int64_t kDcganScale = 4;  ///< change of the image side by two strided convolutions

struct DcganDiscriminatorOptions {
  Auto<Shape> image;
  int64_t features = 64;
  bool batch_norm = true;
};

struct DcganGeneratorOptions {
  Auto<Shape> image;
  int64_t features = 64;
  bool batch_norm = true;
  int64_t latent = 100;
};

template <class Options>
Schema<Options> dcgan_schema() {
  return Schema<Options>()
      .field("image", &Options::image,
             "Channels, height and width of one image; the sides are multiples of 4.")
      .on_resume(Change::kImpossible)
      .field("features", &Options::features, "Filters of the layer next to the image.",
             at_least<int64_t>(1))
      .on_resume(Change::kImpossible)
      .field("batch_norm", &Options::batch_norm, "Batch norm after the inner convolutions.")
      .on_resume(Change::kImpossible)
      .check([](const Options& options, const Node& node, Reading& reading) {
        if (options.image && (*options.image).size() != 3) {
          reading.problems.error(
              node.where, text("'image' must be three numbers, not {}", (*options.image).size()));
        }
      });
}

Shape dcgan_image(const char* model, const Auto<Shape>& given, const DataShape& data) {
  want_images(model, data);
  const Shape image = equal_shape(model, "image", given, data.input);
  if (image[1] % kDcganScale == 0 && image[2] % kDcganScale == 0) return image;
  throw Error(ExitCode::kRecipe,
              text("the model '{}' requires images with sides that are multiples of 4, not {} x {}",
                   model, image[1], image[2]),
              "the transform 'resize' makes them fit");
}

/// An inner convolution with its norm and activation.
template <class Convolution>
class DcganBlock {
 public:
  DcganBlock(torch::nn::Module& owner, const std::string& number, Convolution convolution,
             int64_t channels, bool batch_norm)
      : convolution_(owner.register_module("conv" + number, std::move(convolution))) {
    torch::nn::init::normal_(convolution_->weight, 0, kDcganSpread);
    if (!batch_norm) return;
    norm_ = owner.register_module("norm" + number, RankBatchNorm2d(channels));
    torch::nn::init::normal_(norm_->weight, 1, kDcganSpread);
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = convolution_->forward(x);
    return norm_ ? norm_->forward(y) : y;
  }

 private:
  Convolution convolution_;
  RankBatchNorm2d norm_{nullptr};
};

class DcganGeneratorNet final : public torch::nn::Module {
 public:
  using Block = DcganBlock<torch::nn::ConvTranspose2d>;

  DcganGeneratorNet(const Shape& image, const DcganGeneratorOptions& options) {
    const int64_t inner = 2 * options.features;
    add("1", {options.latent, inner, {image[1] / kDcganScale, image[2] / kDcganScale}},
        options.batch_norm);
    add("2", strided(inner, options.features), options.batch_norm);
    add("3", strided(options.features, image[0]), false);
  }

  at::Tensor forward(const at::Tensor& noise) {
    at::Tensor x = blocks_[0].forward(noise.unsqueeze(-1).unsqueeze(-1)).relu();
    x = blocks_[1].forward(x).relu();
    return blocks_[2].forward(x).tanh();
  }

 private:
  using Options = torch::nn::ConvTranspose2dOptions;

  static Options strided(int64_t in, int64_t out) {
    return Options(in, out, 4).stride(2).padding(1);
  }
  void add(const std::string& number, Options options, bool batch_norm) {
    const int64_t channels = options.out_channels();
    torch::nn::ConvTranspose2d convolution(options.bias(!batch_norm));
    blocks_.emplace_back(*this, number, std::move(convolution), channels, batch_norm);
  }

  std::vector<Block> blocks_;
};

class DcganDiscriminatorNet final : public torch::nn::Module {
 public:
  using Block = DcganBlock<torch::nn::Conv2d>;

  DcganDiscriminatorNet(const Shape& image, const DcganDiscriminatorOptions& options) {
    const int64_t inner = 2 * options.features;
    add("1", strided(image[0], options.features), false);
    add("2", strided(options.features, inner), options.batch_norm);
    add("3", {inner, 1, {image[1] / kDcganScale, image[2] / kDcganScale}}, false);
  }

  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = at::leaky_relu(blocks_[0].forward(images), kDcganLeak);
    x = at::leaky_relu(blocks_[1].forward(x), kDcganLeak);
    return blocks_[2].forward(x).flatten(1);
  }

 private:
  using Options = torch::nn::Conv2dOptions;

  static Options strided(int64_t in, int64_t out) {
    return Options(in, out, 4).stride(2).padding(1);
  }
  void add(const std::string& number, Options options, bool batch_norm) {
    const int64_t channels = options.out_channels();
    torch::nn::Conv2d convolution(options.bias(!batch_norm));
    blocks_.emplace_back(*this, number, std::move(convolution), channels, batch_norm);
  }

  std::vector<Block> blocks_;
};

class DcganGenerator final : public Generator {
 public:
  static constexpr auto kName = "dcgan_generator";
  static constexpr auto kSummary = "Draws images, from -1 to 1, out of noise.";

  static Schema<DcganGeneratorOptions> schema() {
    return dcgan_schema<DcganGeneratorOptions>()
        .field("latent", &DcganGeneratorOptions::latent,
               "Numbers of noise that an image is made of.", at_least<int64_t>(1))
        .on_resume(Change::kImpossible);
  }

  DcganGenerator(const DcganGeneratorOptions& options, const ModelContext& context)
      : latent_(options.latent),
        net_(std::make_shared<DcganGeneratorNet>(dcgan_image(kName, options.image, context.data),
                                                 options)) {}

  at::Tensor forward(const at::Tensor& noise) override { return net_->forward(noise); }
  int64_t latent() const override { return latent_; }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "gan"; }

 private:
  int64_t latent_;
  std::shared_ptr<DcganGeneratorNet> net_;
};

class DcganDiscriminator final : public Model, public InputSpec {
 public:
  static constexpr auto kName = "dcgan_discriminator";
  static constexpr auto kSummary = "One number per image: whether it is a real one.";

  static Schema<DcganDiscriminatorOptions> schema() {
    return dcgan_schema<DcganDiscriminatorOptions>();
  }

  DcganDiscriminator(const DcganDiscriminatorOptions& options, const ModelContext& context)
      : image_(dcgan_image(kName, options.image, context.data)),
        net_(std::make_shared<DcganDiscriminatorNet>(image_, options)) {}

  at::Tensor forward(const at::Tensor& images) override { return net_->forward(images); }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "regression"; }
  void validate_input(const DataShape& data) const override {
    check_one_shape(kName, image_, data);
  }

 private:
  Shape image_;
  std::shared_ptr<DcganDiscriminatorNet> net_;
};

const Register<DcganGenerator> dcgan_generator;
const Register<DcganDiscriminator> dcgan_discriminator;

}  // namespace
}  // namespace accel
