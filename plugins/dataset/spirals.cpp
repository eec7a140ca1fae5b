// A dataset that is computed: points on arms that wind around each other, one class per arm.
//
// A dataset says how many samples it has, gives each by its index, and tells their shape. What is
// random comes from SampleRng alone, so that a sample is the same whenever and by whom it is asked
// for: that is what lets a run be resumed to the bit.
#include <cmath>
#include <numbers>
#include <sstream>
#include <string>

#include "core/api/dataset.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct SpiralsOptions {
  int64_t length = 600;
  int64_t arms = 2;
  double noise = 0.05;
  double turns = 1.0;
};

class Spirals final : public Dataset {
 public:
  static constexpr auto kName = "example/spirals";
  static constexpr auto kSummary = "Points in the plane on arms that wind around each other.";

  static Schema<SpiralsOptions> schema() {
    return Schema<SpiralsOptions>()
        .field("length", &SpiralsOptions::length, "Samples.", at_least<int64_t>(1))
        .field("arms", &SpiralsOptions::arms, "Number of classes.", between<int64_t>(2, 16))
        .field("noise", &SpiralsOptions::noise, "Standard deviation of each coordinate.",
               at_least(0.0))
        .field("turns", &SpiralsOptions::turns, "How often an arm winds around the middle.",
               more_than(0.0));
  }

  Spirals(const SpiralsOptions& options, const DatasetContext& context)
      : options_(options), context_(context) {}

  int64_t size() const override { return options_.length; }

  Sample sample(int64_t index) const override {
    SampleRng rng(context_.seed, context_.train ? 0 : 1, static_cast<uint64_t>(index));
    const int64_t arm = index % options_.arms;
    const double radius = rng.uniform();
    const double start = static_cast<double>(arm) / static_cast<double>(options_.arms);
    const double angle = 2 * std::numbers::pi * (start + options_.turns * radius);
    Array point(DType::kF32, {2});
    point.mutable_as<float>()[0] =
        static_cast<float>(radius * std::cos(angle) + options_.noise * rng.normal());
    point.mutable_as<float>()[1] =
        static_cast<float>(radius * std::sin(angle) + options_.noise * rng.normal());
    return {point, Array::label(arm)};
  }

  DataShape shape() const override { return {.input = {2}, .classes = options_.arms}; }

  /// Of computed data, all that it depends on.
  std::string fingerprint() const override {
    std::ostringstream text;
    text << kName << ' ' << options_.length << ' ' << options_.arms << ' ' << options_.noise << ' '
         << options_.turns << " seed " << context_.seed << (context_.train ? " train" : " eval");
    return text.str();
  }

 private:
  SpiralsOptions options_;
  DatasetContext context_;
};

const Register<Spirals> spirals;

}  // namespace
}  // namespace accel
