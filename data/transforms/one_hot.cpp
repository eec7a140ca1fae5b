// Converts class labels to one-hot vectors.
#include <algorithm>
#include <cstdint>
#include <string>

#include "core/api/dataset.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct OneHotOptions {};

class OneHot final : public Transform {
 public:
  static constexpr auto kName = "one_hot";
  static constexpr auto kSummary = "Turns class labels into vectors, for a regression loss.";

  static Schema<OneHotOptions> schema() { return {}; }

  OneHot(const OneHotOptions&, const TransformContext& context)
      : shape_(context.shape), classes_(context.shape.classes) {
    if (classes_ == 0 || !shape_.target.empty() || shape_.target_type != DType::kI64) {
      throw Error(ExitCode::kRecipe,
                  text("'one_hot' requires class labels, but the targets are {} of shape {}",
                       name_of(shape_.target_type), to_string(shape_.target)));
    }
    shape_.target = {classes_};
    shape_.target_type = DType::kF32;
  }

  Sample apply(Sample sample, SampleRng&) const override {
    const int64_t label = sample.target.as<int64_t>()[0];
    if (label < 0 || label >= classes_) {
      throw DataError(
          text("'one_hot' requires labels from 0 to {}, but a sample has {}", classes_ - 1, label));
    }
    Array out(DType::kF32, {classes_});
    std::fill_n(out.mutable_as<float>().data(), classes_, 0.0f);
    out.mutable_as<float>()[static_cast<size_t>(label)] = 1.0f;
    sample.target = std::move(out);
    return sample;
  }

  DataShape shape() const override { return shape_; }

 private:
  DataShape shape_;
  int64_t classes_;
};

const Register<OneHot> one_hot;

}  // namespace
}  // namespace accel
