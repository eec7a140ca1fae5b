// The transforms of images, vectors and labels.
#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "tests/unit/build_component.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::transforms_test {
namespace {

DataShape image_shape(const Shape& input) {
  return {.input = input, .classes = 3};
}

/// An image whose values count up from 1, so that padding shows.
Sample counting(const Shape& shape) {
  Array image(DType::kF32, shape);
  const auto values = image.mutable_as<float>();
  std::iota(values.begin(), values.end(), 1.0f);
  return {image, Array::label(1)};
}

std::vector<float> values_of(const Array& array) {
  const auto values = array.as<float>();
  return {values.begin(), values.end()};
}

std::unique_ptr<Transform> transform(const std::string& yaml, const Shape& shape,
                                     bool train = true) {
  return build<Transform>(yaml, {image_shape(shape), train});
}

std::vector<float> applied(const std::string& yaml, const Shape& shape, bool train = true,
                           uint64_t seed = 1) {
  const auto change = transform(yaml, shape, train);
  SampleRng rng(seed, 0, 0);
  const Sample out = change->apply(counting(shape), rng);
  EXPECT_EQ(out.input.shape(), change->shape().input);
  return values_of(out.input);
}

std::string transform_complaint(const std::string& yaml, const Shape& shape) {
  try {
    transform(yaml, shape);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
    return std::string(error.what()) + (error.hint().empty() ? "" : "\n" + error.hint());
  }
  return "";
}

TEST(TransformsTest, NormalizeShiftsAndScalesByChannel) {
  EXPECT_EQ(applied("{type: normalize, mean: [1, 2], std: [2, 4]}", {2, 1, 2}),
            (std::vector<float>{0, 0.5f, 0.25f, 0.5f}));
  EXPECT_EQ(applied("{type: normalize, mean: 1, std: 2}", {3}), (std::vector<float>{0, 0.5f, 1}));
  EXPECT_EQ(transform_complaint("{type: normalize, mean: [1, 2], std: 1}", {3, 4, 4}),
            "'mean' has 2 values, but the samples have shape [3, 4, 4]\n"
            "set 1 value or 3");
}

TEST(TransformsTest, CropsCutTheMiddle) {
  EXPECT_EQ(applied("{type: center_crop, size: 2}", {1, 4, 4}), (std::vector<float>{6, 7, 10, 11}));
  EXPECT_EQ(applied("{type: center_crop, size: [1, 3]}", {1, 4, 4}),
            (std::vector<float>{9, 10, 11}));  // rounds half to even, as Python
  EXPECT_EQ(applied("{type: random_crop, size: 2, padding: 1}", {1, 4, 4}, false),
            (std::vector<float>{6, 7, 10, 11}));
  EXPECT_EQ(transform_complaint("{type: center_crop, size: 5}", {1, 4, 4}),
            "'center_crop' crops to [5, 5] pixels, but an image has [4, 4]\n"
            "put a 'resize' before it");
}

TEST(TransformsTest, RandomCropsReachEveryPlaceAndPadWithZeros) {
  std::set<std::vector<float>> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    seen.insert(applied("{type: random_crop, size: 2, padding: 1}", {1, 2, 2}, true, seed));
  }
  EXPECT_EQ(seen.size(), 9u);
  EXPECT_TRUE(seen.contains({0, 0, 0, 1}));
  EXPECT_TRUE(seen.contains({1, 2, 3, 4}));
  EXPECT_TRUE(seen.contains({4, 0, 0, 0}));
}

TEST(TransformsTest, RandomChangesDependOnTheSamplesStreamOnly) {
  for (const char* yaml : {"{type: random_crop, size: 3, padding: 2}", "{type: random_flip}",
                           "{type: random_erase, p: 1}"}) {
    EXPECT_EQ(applied(yaml, {2, 5, 5}, true, 7), applied(yaml, {2, 5, 5}, true, 7)) << yaml;
  }
}

TEST(TransformsTest, FlipsMirrorRowsHalfOfTheTime) {
  EXPECT_EQ(applied("{type: random_flip, p: 1}", {1, 2, 3}),
            (std::vector<float>{3, 2, 1, 6, 5, 4}));
  int flipped = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    flipped += applied("random_flip", {1, 1, 2}, true, seed)[0] == 2;
  }
  EXPECT_NEAR(flipped, 500, 60);
}

TEST(TransformsTest, ChanceLeavesEvaluationAlone) {
  for (const char* yaml : {"{type: random_flip, p: 1}", "{type: random_erase, p: 1}"}) {
    EXPECT_EQ(applied(yaml, {1, 4, 4}, false), values_of(counting({1, 4, 4}).input)) << yaml;
  }
}

TEST(TransformsTest, EraseBlanksARectangleInEveryChannel) {
  const std::vector<float> out = applied("{type: random_erase, p: 1, value: -1}", {2, 8, 8});
  const auto blank = std::count(out.begin(), out.end(), -1.0f);
  EXPECT_GT(blank, 0);
  EXPECT_EQ(std::count(out.begin(), out.begin() + 64, -1.0f) * 2, blank);
  EXPECT_NE(complaint([] {
              transform("{type: random_erase, smallest: 0.5, largest: 0.1}", {1, 4, 4});
            }).find("'smallest' must not be above 'largest'"),
            std::string::npos);
}

TEST(TransformsTest, ResizeSaysWhatComesOut) {
  EXPECT_EQ(transform("{type: resize, size: 8}", {3, 4, 6})->shape().input, (Shape{3, 8, 12}));
  EXPECT_EQ(transform("{type: resize, size: [8, 8]}", {3, 0, 0})->shape().input, (Shape{3, 8, 8}));
  EXPECT_EQ(applied("{type: resize, size: [1, 1]}", {1, 2, 2}), (std::vector<float>{2.5f}));
  EXPECT_EQ(applied("{type: resize, size: 1, interpolation: nearest}", {1, 3, 3}),
            (std::vector<float>{5}));
}

TEST(TransformsTest, GrayscaleWeighsTheColours) {
  const std::vector<float> out = applied("grayscale", {3, 1, 1});
  EXPECT_NEAR(out[0], 0.299 + 2 * 0.587 + 3 * 0.114, 1e-6);
  EXPECT_EQ(transform_complaint("grayscale", {1, 4, 4}),
            "'grayscale' requires 3 channels, but the samples have shape [1, 4, 4]");
}

TEST(TransformsTest, FlattenKeepsTheMemory) {
  const auto flat = transform("flatten", {2, 3, 4});
  EXPECT_EQ(flat->shape().input, Shape{24});
  SampleRng rng(1, 0, 0);
  const Sample in = counting({2, 3, 4});
  EXPECT_EQ(flat->apply(in, rng).input.data(), in.input.data());
  EXPECT_EQ(transform_complaint("flatten", {3, 0, 0}),
            "'flatten' requires samples of one size, but their shapes differ\n"
            "put a 'resize' before it");
}

TEST(TransformsTest, OneHotTurnsLabelsIntoVectors) {
  const auto change = transform("one_hot", {4});
  EXPECT_EQ(change->shape().target, Shape{3});
  EXPECT_EQ(change->shape().target_type, DType::kF32);
  SampleRng rng(1, 0, 0);
  EXPECT_EQ(values_of(change->apply(counting({4}), rng).target), (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(complaint([] {
              build<Transform>("one_hot",
                               {{.input = {4}, .target = {1}, .target_type = DType::kF32}, true});
            }),
            "'one_hot' requires class labels, but the targets are F32 of shape [1]");
  for (const int64_t label : {-100, 3}) {
    EXPECT_EQ(complaint([&] {
                change->apply({Array(DType::kF32, {4}), Array::label(label)}, rng);
              }),
              "'one_hot' requires labels from 0 to 2, but a sample has " + std::to_string(label));
  }
}

TEST(TransformsTest, ImageTransformsRefuseVectors) {
  for (const char* yaml :
       {"{type: resize, size: 4}", "{type: center_crop, size: 4}", "{type: random_crop, size: 4}",
        "random_flip", "random_erase", "grayscale"}) {
    EXPECT_NE(
        transform_complaint(yaml, {784})
            .find("requires images of shape [channels, height, width], but the samples are F32 "
                  "of shape [784]\nput it before any 'flatten'"),
        std::string::npos)
        << yaml;
  }
  SampleRng rng(1, 0, 0);
  EXPECT_EQ(complaint([&] {
              transform("{type: resize, size: 4}", {1, 8, 8})->apply(counting({784}), rng);
            }),
            "'resize' requires images of shape [channels, height, width], but the sample is F32 of "
            "shape [784]");
}

}  // namespace
}  // namespace accel::transforms_test
