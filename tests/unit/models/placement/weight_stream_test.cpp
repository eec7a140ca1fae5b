// Streaming of weights: bytes that passes read, their order and the limit.
#include "models/placement/weight_stream.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/base/mapped_file.h"

namespace accel {
namespace {

constexpr int64_t kUnitBytes = 64 << 10;
constexpr int64_t kUnits = 6;

struct PlainBlock : Block {};

/// Blocks whose weights follow each other in a file, and a head.
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
      out.push_back(
          {is_head ? nullptr : &blocks_[static_cast<size_t>(i)], mapped_ranges({bytes(i)})});
    }
    return out;
  }
  /// Pages of the unit that this process has mapped and the page cache has.
  int64_t cached_pages(int64_t unit) const {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> found(kUnitBytes / page);
    ::mincore(const_cast<std::byte*>(bytes(unit).data()), kUnitBytes, found.data());
    int64_t count = 0;
    for (const unsigned char flags : found) count += flags & 1;
    return count;
  }
  void pass(size_t first = 0, size_t last = kUnits - 1) {
    for (size_t i = first; i < last; ++i) {
      blocks_[i].hooks()->before_forward();
      EXPECT_EQ(bytes(static_cast<int64_t>(i))[5], std::byte(i));
      blocks_[i].hooks()->after_forward({});
    }
  }

  std::string path_ = testing::TempDir() + "accel-weights-" + std::to_string(::getpid());
  SharedBytes file_;
  PlainBlock blocks_[kUnits];
};

TEST_F(WeightStreamTest, ReadsEachUnitOnceAPassWithinTheLimit) {
  WeightStream stream(units(), {}, 2 * kUnitBytes);
  for (int i = 0; i < 3; ++i) pass();
  const StreamFigures figures = stream.figures();
  EXPECT_EQ(figures.passes, 3);
  EXPECT_EQ(figures.bytes, (3 * kUnits - 1) * kUnitBytes);  // the last head is in use
  EXPECT_LE(figures.peak_bytes, 2 * kUnitBytes);
}

TEST_F(WeightStreamTest, DropsABlockBehindThePass) {
  WeightStream stream(units(), {}, kUnitBytes);
  pass(0, 3);
  EXPECT_EQ(cached_pages(0), 0);
  EXPECT_EQ(cached_pages(1), 0);
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

TEST_F(WeightStreamTest, LeavesTheBlocksWithoutHooks) {
  { const WeightStream stream(units(), {}, 2 * kUnitBytes); }
  EXPECT_EQ(blocks_[0].hooks(), nullptr);
}

TEST_F(WeightStreamTest, JoinsNeighboursOfOneFile) {
  EXPECT_EQ(mapped_ranges({bytes(1), bytes(0)}).size(), 1U);
  EXPECT_EQ(mapped_ranges({bytes(0), bytes(3)}).size(), 2U);
  const std::vector<std::byte> heap(100);
  EXPECT_THROW(mapped_ranges({heap}), std::invalid_argument);
}

}  // namespace
}  // namespace accel
