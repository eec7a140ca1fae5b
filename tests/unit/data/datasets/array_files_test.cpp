// The datasets `idx` and `npy`.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/unit/data/array_files.h"
#include "tests/unit/formats/real_data.h"

namespace accel::array_files_test {
namespace {

TEST_F(ArrayFilesTest, IdxPixelsAreScaledIntoTheUnitRange) {
  const auto data = idx(idx_file({2, 1, 2}, std::string("\x00\xff\x33\x01", 4)),
                        gzip_of(idx_file({2}, "\x03\x01")));
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(data->shape().input, (Shape{1, 1, 2}));
  EXPECT_EQ(data->shape().classes, 4);
  const Sample sample = data->sample(1);
  EXPECT_EQ(sample.input.shape(), (Shape{1, 1, 2}));
  EXPECT_EQ(sample.input.as<float>()[0], 51.0f / 255.0f);
  EXPECT_EQ(sample.input.as<float>()[1], 1.0f / 255.0f);
  EXPECT_EQ(sample.target.shape(), Shape{});
  EXPECT_EQ(sample.target.as<int64_t>()[0], 1);
}

TEST_F(ArrayFilesTest, IdxScalingCanBeTurnedOff) {
  const auto data = idx(idx_file({1, 2}, "\x33\x01"), idx_file({1}, "\x03"), "scale: false\n");
  EXPECT_EQ(data->sample(0).input.as<float>()[0], 51.0f);
  EXPECT_EQ(data->shape().input, Shape{2});
}

TEST_F(ArrayFilesTest, IdxFilesMustFitTogether) {
  const std::string images = idx_file({2, 1, 1}, "ab");
  EXPECT_EQ(complaint([&] { idx(images, idx_file({3}, "abc")); }),
            "'" + images_ + "' holds 2 images, but '" + labels_ +
                "' 3 labels\nthe files of training and test sets may have been mixed up");
  EXPECT_EQ(complaint([&] { idx(idx_file({3}, "abc"), images); }),
            "'" + images_ +
                "' holds values of shape [3], not one image per entry\n"
                "'images' and 'labels' may have been mixed up");
  EXPECT_EQ(complaint([&] { idx(images, images); }),
            "'" + labels_ +
                "' holds U8 values of shape [2, 1, 1], not one whole number per image\n"
                "'images' and 'labels' may have been mixed up");
}

TEST_F(ArrayFilesTest, IdxFingerprintsAreOfContentNotOfPacking) {
  const std::string images = idx_file({1, 1, 1}, "a");
  const std::string labels = idx_file({1}, "\x03");
  const std::string print = idx(images, labels)->fingerprint();
  EXPECT_EQ(idx(gzip_of(images), labels)->fingerprint(), print);
  EXPECT_NE(idx(idx_file({1, 1, 1}, "b"), labels)->fingerprint(), print);
  EXPECT_NE(idx(images, idx_file({1}, "\x04"))->fingerprint(), print);
}

TEST_F(ArrayFilesTest, RealDigitsAreRead) {
  const std::string folder = real_data("mnist10k");
  if (folder.empty()) GTEST_SKIP() << "skipped: the real data is not here";
  const auto data = build<Dataset>("type: idx\nimages: " + folder +
                                   "/train-images-idx3-ubyte.gz\nlabels: " + folder +
                                   "/train-labels-idx1-ubyte.gz\n");
  EXPECT_EQ(data->size(), 9000);
  EXPECT_EQ(data->shape().input, (Shape{1, 28, 28}));
  EXPECT_EQ(data->shape().classes, 10);
  const Array image = data->sample(8999).input;
  const auto pixels = image.as<float>();
  EXPECT_EQ(*std::max_element(pixels.begin(), pixels.end()), 1.0f);
}

TEST_F(ArrayFilesTest, NpyFloatsAreFeaturesAndWholeNumbersClasses) {
  const auto data = npy(npy_file<double>("<f8", "(2, 2)", {1, 2, 3, 4.5}),
                        npy_file<uint8_t>("|u1", "(2,)", {0, 6}));
  EXPECT_EQ(data->shape().input, Shape{2});
  EXPECT_EQ(data->shape().target_type, DType::kI64);
  EXPECT_EQ(data->shape().classes, 7);
  EXPECT_EQ(data->sample(1).input.as<float>()[1], 4.5f);
  EXPECT_EQ(data->sample(1).target.as<int64_t>()[0], 6);
}

TEST_F(ArrayFilesTest, NpyFloatTargetsAreForRegression) {
  const auto data =
      npy(npy_file<float>("<f4", "(1, 2)", {1, 2}), npy_file<float>("<f4", "(1, 1)", {0.5f}));
  EXPECT_EQ(data->shape().target, Shape{1});
  EXPECT_EQ(data->shape().target_type, DType::kF32);
  EXPECT_EQ(data->shape().classes, 0);
  EXPECT_EQ(data->sample(0).target.as<float>()[0], 0.5f);
}

TEST_F(ArrayFilesTest, NpyHalvesAreWidened) {
  const auto data = npy(npy_file<uint16_t>("<f2", "(1, 4)", {0x3c00, 0xc100, 0x0001, 0x7c00}),
                        npy_file<int64_t>("<i8", "(1,)", {0}));
  const Array halves = data->sample(0).input;
  EXPECT_EQ(halves.as<float>()[0], 1.0f);
  EXPECT_EQ(halves.as<float>()[1], -2.5f);
  EXPECT_EQ(halves.as<float>()[2], 0x1p-24f);
  EXPECT_EQ(halves.as<float>()[3], std::numeric_limits<float>::infinity());
}

TEST_F(ArrayFilesTest, NpyBytesArePixelsAndWideWholeNumbersTokens) {
  const auto targets = npy_file<int64_t>("<i8", "(1, 2)", {1, 5});
  const auto pixels = npy(npy_file<uint8_t>("|u1", "(1, 2)", {255, 0}), targets, "scale: true\n");
  EXPECT_EQ(pixels->sample(0).input.as<float>()[0], 1.0f);
  const auto tokens = npy(npy_file<int32_t>("<i4", "(1, 2)", {9, 1}), targets);
  EXPECT_EQ(tokens->shape().input_type, DType::kI64);
  EXPECT_EQ(tokens->shape().vocab, 10);
  EXPECT_EQ(tokens->sample(0).input.as<int64_t>()[0], 9);
}

TEST_F(ArrayFilesTest, NpyFilesMustFitTogether) {
  const auto inputs = npy_file<float>("<f4", "(2, 1)", {1, 2});
  EXPECT_EQ(complaint([&] {
              npy(inputs, npy_file<int64_t>("<i8", "(3,)", {1, 2, 3}));
            }),
            "'" + images_ + "' has 2 entries, but '" + labels_ + "' 3");
  EXPECT_EQ(complaint([&] { npy(inputs, npy_file<int64_t>("<i8", "()", {1})); }),
            "'" + labels_ + "' holds a single number, not one entry per sample");
  EXPECT_EQ(complaint([&] {
              npy(inputs, npy_file<int64_t>("<i8", "(2,)", {1, -1}));
            }),
            "'" + labels_ + "' holds the label -1; class labels are 0 or more");
  EXPECT_EQ(complaint([&] {
              npy(inputs, npy_file<int64_t>("<i8", "(2,)", {1, 1}), "scale: true\n");
            }),
            "'scale' is for unsigned bytes, but '" + images_ + "' holds F32");
  EXPECT_EQ(complaint([&] {
              npy(inputs, npy_file<uint64_t>("<u8", "(2,)", {1, ~0ull}));
            }),
            "'" + labels_ + "' holds a whole number beyond 63 bits");
}

}  // namespace
}  // namespace accel::array_files_test
