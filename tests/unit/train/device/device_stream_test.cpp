// Streaming of weights to a device, whose copies run when they are waited for.
#include "models/placement/device_stream.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <span>

#include "core/base/mapped_file.h"
#include "tests/host_device/host_device.h"

namespace accel {
namespace {

constexpr int64_t kUnits = 5, kNumbers = 1024;
constexpr int64_t kUnitBytes = kNumbers * 4;

struct PlainBlock : Block {};

/// Blocks of one weight each, and a head.
class DeviceStreamTest : public ::testing::Test {
 protected:
  static float value(size_t unit) { return static_cast<float>(unit) + 1; }

  std::vector<DeviceUnit> units() {
    std::vector<DeviceUnit> out;
    for (size_t i = 0; i < kUnits; ++i) {
      weights_.push_back(at::full({kNumbers}, value(i)));
      out.push_back(
          {i + 1 == kUnits ? nullptr : &blocks_[i], {{weights_[i], weights_[i].detach()}}});
    }
    return out;
  }
  bool has_memory(size_t unit) const { return weights_[unit].const_data_ptr() != nullptr; }
  /// Whether the unit's weight is on the device, with its values.
  void expect_there(size_t unit) const {
    ASSERT_EQ(weights_[unit].device(), host_device());
    ASSERT_TRUE(has_memory(unit)) << unit;
    const auto* numbers = static_cast<const float*>(weights_[unit].const_data_ptr());
    for (int64_t i = 0; i < kNumbers; ++i) ASSERT_EQ(numbers[i], value(unit)) << unit;
  }
  void pass(size_t last = kUnits - 1) {
    for (size_t i = 0; i < last; ++i) {
      blocks_[i].hooks()->before_forward();
      expect_there(i);
      blocks_[i].hooks()->after_forward({});
      EXPECT_FALSE(has_memory(i)) << i;
    }
  }

  std::array<PlainBlock, kUnits> blocks_;
  std::vector<at::Tensor> weights_;
};

TEST_F(DeviceStreamTest, GivesEachBlockItsWeightsHoweverMuchRoomThereIs) {
  for (const int64_t room : {int64_t{1}, 2 * kUnitBytes, 3 * kUnitBytes + 100, int64_t{1} << 40}) {
    weights_.clear();
    const DeviceStream stream(units(), host_device(), room, nullptr);
    for (int i = 0; i < 3; ++i) pass();
    EXPECT_EQ(stream.passes(), 3);
    EXPECT_EQ(stream.pass_bytes(), kUnits * kUnitBytes);
    EXPECT_GE(stream.capacity(), kUnitBytes);
    EXPECT_LE(stream.capacity(), std::max(std::min(room, kUnits * kUnitBytes), kUnitBytes));
  }
}

TEST_F(DeviceStreamTest, HasTheHeadFromTheLastBlockToTheNextPass) {
  const DeviceStream stream(units(), host_device(), kUnitBytes, nullptr);
  EXPECT_FALSE(has_memory(kUnits - 1));
  pass();
  expect_there(kUnits - 1);
  blocks_[0].hooks()->before_forward();
  EXPECT_FALSE(has_memory(kUnits - 1));
}

TEST_F(DeviceStreamTest, BeginsAgainAfterAPassThatEndedEarly) {
  const DeviceStream stream(units(), host_device(), 3 * kUnitBytes, nullptr);
  pass(2);
  pass();
  EXPECT_EQ(stream.passes(), 2);
}

TEST_F(DeviceStreamTest, LeavesTheHostsWeightsAndNoHooks) {
  {
    const DeviceStream stream(units(), host_device(), 2 * kUnitBytes, nullptr);
    blocks_[0].hooks()->before_forward();
  }
  EXPECT_EQ(blocks_[0].hooks(), nullptr);
  for (size_t i = 0; i < kUnits; ++i) {
    EXPECT_TRUE(weights_[i].equal(at::full({kNumbers}, value(i)))) << i;
  }
}

TEST_F(DeviceStreamTest, TakesUnitsFromTheDisk) {
  const std::string path = testing::TempDir() + "accel-device-" + std::to_string(::getpid());
  {
    std::ofstream file(path, std::ios::binary);
    for (size_t i = 0; i < kUnits; ++i) {
      const std::vector<float> numbers(kNumbers, value(i));
      file.write(reinterpret_cast<const char*>(numbers.data()), kUnitBytes);
    }
  }
  const SharedBytes mapped = map_file(path);
  ::sync();  // pages that are not written yet stay in memory
  std::vector<DeviceUnit> all = units();
  std::vector<StreamedUnit> read;
  for (size_t i = 1; i < kUnits; ++i) {  // the first one is in memory
    const auto part = mapped.view.subspan(i * kUnitBytes, kUnitBytes);
    at::Tensor& values = all[i].weights.front().values;
    values = at::from_blob(const_cast<std::byte*>(part.data()), {kNumbers}, at::kFloat);
    read.push_back({all[i].block, mapped_ranges({part}), {values}});
    all[i].on_disk = i - 1;
  }
  WeightStream disk(std::move(read), {}, 2 * kUnitBytes, WeightStream::User::kCaller);
  const DeviceStream stream(all, host_device(), 2 * kUnitBytes, &disk);
  for (int i = 0; i < 3; ++i) pass();
  pass(2);
  pass();
  EXPECT_LE(disk.figures().peak_bytes, 2 * kUnitBytes);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace accel
