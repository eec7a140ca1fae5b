// Samples stacked into batches.
#include "data/loader/host_batch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/api/targets.h"
#include "core/base/error.h"

namespace accel::host_batch_test {
namespace {

Sample sample_of(Shape shape, DType type = DType::kF32) {
  Array input(type, std::move(shape));
  std::fill_n(input.mutable_data(), input.bytes(), std::byte{7});
  return {input, Array::label(3)};
}

std::string complaint(const Sample& first, const Sample& second) {
  Collator collator(2);
  collator.add(first, 11);
  try {
    collator.add(second, 5);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(CollatorTest, StacksSamplesAlongANewFirstDimension) {
  Collator collator(3);
  for (int64_t id : {4, 2, 9}) {
    const float values[] = {float(id), -float(id)};
    collator.add({Array::of<float>(DType::kF32, {1, 2}, values), Array::label(id)}, id);
  }
  const HostBatch batch = std::move(collator).finish();
  EXPECT_EQ(batch.ids, (std::vector<int64_t>{4, 2, 9}));
  EXPECT_EQ(batch.inputs.shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(batch.targets.shape(), (Shape{3}));
  const auto inputs = batch.inputs.as<float>();
  EXPECT_EQ(std::vector<float>(inputs.begin(), inputs.end()),
            (std::vector<float>{4, -4, 2, -2, 9, -9}));
  const auto targets = batch.targets.as<int64_t>();
  EXPECT_EQ(std::vector<int64_t>(targets.begin(), targets.end()), batch.ids);
}

TEST(CollatorTest, MemoryIsAligned) {
  Collator collator(1);
  collator.add(sample_of({5}), 0);
  const HostBatch batch = std::move(collator).finish();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(batch.inputs.data()) % 64, 0u);
}

TEST(CollatorTest, SamplesWithoutATargetGiveABatchWithoutTargets) {
  Collator collator(2);
  collator.add({sample_of({5}).input, {}}, 0);
  collator.add({sample_of({5}).input, {}}, 1);
  EXPECT_TRUE(std::move(collator).finish().targets.empty());
}

TEST(CollatorTest, EmptySamplesStackToo) {
  Collator collator(2);
  collator.add(sample_of({0}), 0);
  collator.add(sample_of({0}), 1);
  EXPECT_EQ(std::move(collator).finish().inputs.shape(), (Shape{2, 0}));
}

TEST(CollatorTest, DifferentShapesAreRefusedNamingBothSamples) {
  EXPECT_EQ(complaint(sample_of({3, 32, 32}), sample_of({3, 30, 32})),
            "the input of sample 5 is F32 [3, 30, 32], but that of sample 11 in the same batch is "
            "F32 [3, 32, 32]");
  EXPECT_EQ(complaint(sample_of({2}), sample_of({2, 1})),
            "the input of sample 5 is F32 [2, 1], but that of sample 11 in the same batch is "
            "F32 [2]");
  EXPECT_EQ(complaint(sample_of({2}), sample_of({2}, DType::kU8)),
            "the input of sample 5 is U8 [2], but that of sample 11 in the same batch is F32 [2]");
  EXPECT_EQ(complaint(sample_of({2}), {sample_of({2}).input, {}}),
            "the target of sample 5 is none, but that of sample 11 in the same batch is I64 []");
  EXPECT_EQ(complaint({sample_of({2}).input, {}}, sample_of({2})),
            "the target of sample 5 is I64 [], but that of sample 11 in the same batch is none");
}

Array tokens(const std::vector<int64_t>& ids) {
  return Array::of<int64_t>(DType::kI64, {static_cast<int64_t>(ids.size())}, std::span(ids));
}

std::vector<int64_t> numbers(const Array& array) {
  const auto values = array.as<int64_t>();
  return {values.begin(), values.end()};
}

struct PaddedCase {
  Padding padding;
  std::vector<std::vector<int64_t>> samples;
  Shape shape;
  std::vector<int64_t> inputs;
};

const PaddedCase kPadded[] = {
    {{9, 1}, {{1}, {2, 3, 4}}, {2, 3}, {1, 9, 9, 2, 3, 4}},
    {{0, 4}, {{1, 2}, {3}}, {2, 4}, {1, 2, 0, 0, 3, 0, 0, 0}},
    {{0, 2}, {{1, 2}}, {1, 2}, {1, 2}},
};

TEST(CollatorTest, SamplesAreFilledToTheLongestOfTheBatch) {
  for (const PaddedCase& test : kPadded) {
    Collator collator(static_cast<int64_t>(test.samples.size()), test.padding);
    std::vector<int64_t> lengths;
    for (const auto& ids : test.samples) {
      collator.add({tokens(ids), Array::label(7)}, 5);
      lengths.push_back(static_cast<int64_t>(ids.size()));
    }
    const HostBatch batch = std::move(collator).finish();
    EXPECT_EQ(batch.inputs.shape(), test.shape);
    EXPECT_EQ(numbers(batch.inputs), test.inputs);
    EXPECT_EQ(numbers(batch.lengths), lengths);
    EXPECT_EQ(numbers(batch.targets), std::vector<int64_t>(test.samples.size(), 7));
    EXPECT_TRUE(batch.segments.empty());
    EXPECT_EQ(batch.ids, std::vector<int64_t>(test.samples.size(), 5));
  }
}

TEST(CollatorTest, FilledTargetsCarryNoLoss) {
  Collator collator(2, Padding{.input = 9});
  collator.add({tokens({1, 2}), tokens({3, 4}), tokens({0, 1})}, 0);
  collator.add({tokens({5}), tokens({6}), tokens({1})}, 1);
  const HostBatch batch = std::move(collator).finish();
  EXPECT_EQ(numbers(batch.inputs), (std::vector<int64_t>{1, 2, 5, 9}));
  EXPECT_EQ(numbers(batch.targets), (std::vector<int64_t>{3, 4, 6, kIgnoredTarget}));
  EXPECT_EQ(numbers(batch.segments), (std::vector<int64_t>{0, 1, 1, 0}));
}

TEST(CollatorTest, TargetsOfTheirOwnLengthAreFilledToTheLongestOfThem) {
  Collator collator(2, Padding{.input = 9, .multiple = 2}, TargetLength::kOwn);
  collator.add({tokens({1, 2, 3}), tokens({4})}, 0);
  collator.add({tokens({5}), tokens({6, 7})}, 1);
  const HostBatch batch = std::move(collator).finish();
  EXPECT_EQ(numbers(batch.inputs), (std::vector<int64_t>{1, 2, 3, 9, 5, 9, 9, 9}));
  EXPECT_EQ(numbers(batch.lengths), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(batch.targets.shape(), (Shape{2, 2}));
  EXPECT_EQ(numbers(batch.targets), (std::vector<int64_t>{4, kIgnoredTarget, 6, 7}));
}

TEST(CollatorTest, SamplesOfOneShapeHaveNoLengths) {
  Collator collator(1);
  collator.add({tokens({1, 2}), {}}, 0);
  EXPECT_TRUE(std::move(collator).finish().lengths.empty());
}

TEST(CollatorTest, WhatCannotBeFilledIsRefused) {
  const auto refusal = [](const Sample& sample,
                          TargetLength length = TargetLength::kOfInput) -> std::string {
    try {
      Collator(1, Padding(), length).add(sample, 4);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(sample_of({2})), "the input of sample 4 is F32 [2], not a sequence of tokens");
  EXPECT_EQ(refusal({tokens({}), {}}),
            "the input of sample 4 is I64 [0], not a sequence of tokens");
  EXPECT_EQ(refusal({tokens({1, 2}), tokens({1})}),
            "the target of sample 4 is I64 [1], but its input is I64 [2]");
  EXPECT_EQ(refusal({tokens({1}), {}, tokens({1, 1})}),
            "the division into texts of sample 4 is I64 [2], but its input is I64 [1]");
  EXPECT_EQ(refusal({tokens({1}), tokens({})}, TargetLength::kOwn),
            "the target of sample 4 is I64 [0], not a sequence of tokens");
}

}  // namespace
}  // namespace accel::host_batch_test
