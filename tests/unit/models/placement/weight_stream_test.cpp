// Streaming of weights: bytes that passes read, their order and the limit.
#include "models/placement/weight_stream.h"

#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "models/placement/weight_file.h"

namespace accel {
namespace {

constexpr int64_t kUnitBytes = 64 << 10;
constexpr int64_t kUnits = 6;

struct PlainBlock : Block {};

/// Blocks of one weight each, which follow each other in a file, and a head.
class WeightStreamTest : public ::testing::Test {
 protected:
  WeightStreamTest() {
    {
      std::ofstream file(path_, std::ios::binary);
      for (int64_t i = 0; i < kUnits * kUnitBytes; ++i) file.put(static_cast<char>(i / kUnitBytes));
    }
    file_ = map_file(path_);
    ::sync();  // pages that are not written yet stay in memory
  }
  ~WeightStreamTest() override { std::filesystem::remove(path_); }

  std::span<const std::byte> bytes(int64_t unit) const {
    return file_.view.subspan(static_cast<size_t>(unit * kUnitBytes), kUnitBytes);
  }
  std::vector<StreamedUnit> units() {
    std::vector<StreamedUnit> out;
    for (int64_t i = 0; i < kUnits; ++i) {
      const bool is_head = i + 1 == kUnits;
      weights_.push_back(at::from_blob(const_cast<std::byte*>(bytes(i).data()), {kUnitBytes},
                                       at::TensorOptions().dtype(at::kByte)));
      out.push_back({is_head ? nullptr : &blocks_[static_cast<size_t>(i)],
                     mapped_ranges({bytes(i)}),
                     {weights_.back()}});
    }
    return out;
  }
  bool is_mapped(size_t unit) const {
    return weights_[unit].const_data_ptr() == bytes(static_cast<int64_t>(unit)).data();
  }
  /// Whether the unit's weight is in memory, with its bytes.
  void expect_streamed(size_t unit) const {
    EXPECT_FALSE(is_mapped(unit)) << unit;
    const auto* data = static_cast<const std::byte*>(weights_[unit].const_data_ptr());
    EXPECT_TRUE(std::equal(data, data + kUnitBytes, bytes(static_cast<int64_t>(unit)).data()));
  }
  void pass(size_t first = 0, size_t last = kUnits - 1) {
    for (size_t i = first; i < last; ++i) {
      blocks_[i].hooks()->before_forward();
      expect_streamed(i);
      blocks_[i].hooks()->after_forward({});
      EXPECT_TRUE(is_mapped(i)) << i;
    }
  }

  std::string path_ = testing::TempDir() + "accel-weights-" + std::to_string(::getpid());
  SharedBytes file_;
  std::array<PlainBlock, kUnits> blocks_;
  std::vector<at::Tensor> weights_;
};

TEST_F(WeightStreamTest, ReadsEachUnitOnceAPassWithinTheLimit) {
  WeightStream stream(units(), {}, 2 * kUnitBytes);
  for (int i = 0; i < 3; ++i) pass();
  const StreamFigures figures = stream.figures();
  EXPECT_EQ(figures.passes, 3);
  EXPECT_EQ(figures.bytes, (3 * kUnits - 1) * kUnitBytes);  // the last head is in use
  EXPECT_LE(figures.peak_bytes, 2 * kUnitBytes);
}

TEST_F(WeightStreamTest, HasTheHeadFromTheLastBlockToTheNextPass) {
  WeightStream stream(units(), {}, kUnitBytes);
  pass();
  expect_streamed(kUnits - 1);
  blocks_[0].hooks()->before_forward();
  EXPECT_TRUE(is_mapped(kUnits - 1));
}

TEST_F(WeightStreamTest, ReadsWeightsThatBeginWithinABlockOfTheFile) {
  constexpr int64_t kAt = 5000, kBytes = 3000;
  const auto part = file_.view.subspan(kAt, kBytes);
  const at::Tensor weight = at::from_blob(const_cast<std::byte*>(part.data()), {kBytes},
                                          at::TensorOptions().dtype(at::kByte));
  PlainBlock block;
  WeightStream stream({{&block, mapped_ranges({part}), {weight}}}, {}, 1);
  for (int i = 0; i < 2; ++i) {
    block.hooks()->before_forward();
    const auto* data = static_cast<const std::byte*>(weight.const_data_ptr());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % WeightFile::kBlock, kAt % WeightFile::kBlock);
    EXPECT_TRUE(std::equal(data, data + kBytes, part.data()));
    block.hooks()->after_forward({});
  }
  EXPECT_EQ(stream.figures().peak_bytes, WeightFile::kBlock);
}

TEST_F(WeightStreamTest, ThrowsErrorsOfReadingWhereBytesAreNeeded) {
  std::vector<StreamedUnit> broken = units();
  std::filesystem::resize_file(path_, 2 * kUnitBytes);
  WeightStream stream(std::move(broken), {}, kUnitBytes);
  pass(0, 2);
  try {
    blocks_[2].hooks()->before_forward();
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(std::string(error.what()),
              "cannot read the weights of '" + path_ + "': the file has ended");
    EXPECT_EQ(error.hint(), "check the disk, and that the file is complete");
  }
}

TEST_F(WeightStreamTest, BeginsAgainAfterAPassThatEndedEarly) {
  WeightStream stream(units(), {}, 3 * kUnitBytes);
  pass(0, 2);
  pass();
  EXPECT_EQ(stream.figures().passes, 2);
}

TEST_F(WeightStreamTest, HasRoomForTheLargestUnit) {
  WeightStream stream(units(), {}, 1);
  pass();
  EXPECT_EQ(stream.figures().peak_bytes, kUnitBytes);
}

TEST_F(WeightStreamTest, NeedsNoMoreThanAllUnits) {
  WeightStream stream(units(), {}, int64_t{1} << 60);
  pass();
  pass();
  EXPECT_EQ(stream.figures().peak_bytes, kUnits * kUnitBytes);
}

TEST_F(WeightStreamTest, LeavesTheBlocksWithoutHooks) {
  {
    const WeightStream stream(units(), {}, 2 * kUnitBytes);
    blocks_[0].hooks()->before_forward();
  }
  EXPECT_EQ(blocks_[0].hooks(), nullptr);
  EXPECT_TRUE(is_mapped(0));
}

TEST_F(WeightStreamTest, JoinsNeighboursOfOneFile) {
  EXPECT_EQ(mapped_ranges({bytes(1), bytes(0)}).size(), 1U);
  EXPECT_EQ(mapped_ranges({bytes(0), bytes(3)}).size(), 2U);
  const std::vector<std::byte> heap(100);
  EXPECT_THROW(mapped_ranges({heap}), std::invalid_argument);
}

}  // namespace
}  // namespace accel
