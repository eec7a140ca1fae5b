// Reads of weights past the page cache, the fallback, and their memory.
#include "models/placement/weight_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "models/placement/block_ring.h"

namespace accel {
namespace {

constexpr int64_t kBlock = WeightFile::kBlock;
constexpr int64_t kBytes = 3 * kBlock + 100;

class WeightFileTest : public ::testing::Test {
 protected:
  WeightFileTest() {
    for (int64_t i = 0; i < kBytes; ++i) content_.push_back(static_cast<char>(i / 7));
    std::ofstream(path_, std::ios::binary) << content_;
  }
  ~WeightFileTest() override { std::filesystem::remove(path_); }

  void expect_all(const WeightFile& file) const {
    const BlockRing memory(4 * kBlock);
    file.read(0, {memory.data(), static_cast<size_t>(4 * kBlock)}, kBytes);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(memory.data()), kBytes), content_);
  }
  std::string error_of(const PositionedRead& read) const {
    const BlockRing memory(4 * kBlock);
    try {
      WeightFile(path_, read).read(0, {memory.data(), static_cast<size_t>(4 * kBlock)}, kBytes);
    } catch (const IoError& error) {
      return error.what();
    }
    return "none";
  }

  std::string path_ = testing::TempDir() + "accel-weight-file-" + std::to_string(::getpid());
  std::string content_;
};

TEST_F(WeightFileTest, ReadsToTheEndOfTheFile) {
  expect_all(WeightFile(path_));
}

TEST_F(WeightFileTest, ContinuesShortReadsAtABlock) {
  const auto one_and_a_half = [](int fd, void* to, size_t bytes, off_t offset) {
    EXPECT_EQ(offset % kBlock, 0);
    const ssize_t count = ::pread(fd, to, bytes, offset);
    return std::min<ssize_t>(count, kBlock + kBlock / 2);
  };
  const WeightFile file(path_, one_and_a_half);
  if (file.is_direct()) expect_all(file);
}

TEST_F(WeightFileTest, ReadsThroughThePageCacheWhereDirectReadsAreRefused) {
  const auto refuse = [](int fd, void* to, size_t bytes, off_t offset) -> ssize_t {
    if ((::fcntl(fd, F_GETFL) & O_DIRECT) == 0) return ::pread(fd, to, bytes, offset);
    errno = EINVAL;
    return -1;
  };
  const WeightFile file(path_, refuse);
  expect_all(file);
  EXPECT_FALSE(file.is_direct());
}

TEST_F(WeightFileTest, RepeatsInterruptedReads) {
  int calls = 0;
  expect_all(WeightFile(path_, [&](int fd, void* to, size_t bytes, off_t offset) -> ssize_t {
    if (calls++ > 0) return ::pread(fd, to, bytes, offset);
    errno = EINTR;
    return -1;
  }));
  EXPECT_EQ(calls, 2);
}

TEST_F(WeightFileTest, NamesTheFileAndTheReason) {
  EXPECT_EQ(error_of([](int, void*, size_t, off_t) -> ssize_t {
              errno = EIO;
              return -1;
            }),
            "cannot read the weights of '" + path_ + "': Input/output error");
  EXPECT_EQ(error_of([](int, void*, size_t, off_t) -> ssize_t { return 0; }),
            "cannot read the weights of '" + path_ + "': the file has ended");
  try {
    WeightFile("/nowhere/weights");
    FAIL();
  } catch (const IoError& error) {
    EXPECT_STREQ(error.what(),
                 "cannot open the weights of '/nowhere/weights': No such file or directory");
    EXPECT_EQ(error.hint(), "check that the file still exists");
  }
}

TEST(BlockRingTest, TakesRegionsInTurn) {
  BlockRing ring(10 * kBlock);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(ring.data()) % kBlock, 0U);
  EXPECT_EQ(ring.take(4 * kBlock), 0);
  EXPECT_EQ(ring.take(4 * kBlock), 4 * kBlock);
  EXPECT_EQ(ring.take(4 * kBlock), std::nullopt);
  ring.free_oldest();
  EXPECT_EQ(ring.take(3 * kBlock), 0);
  EXPECT_EQ(ring.take(2 * kBlock), std::nullopt) << "the rest of the first region is one block";
  ring.free_oldest();
  EXPECT_EQ(ring.take(2 * kBlock), 3 * kBlock);
  EXPECT_EQ(ring.peak(), 8 * kBlock);
  ring.clear();
  EXPECT_EQ(ring.take(11 * kBlock), std::nullopt);
  EXPECT_EQ(ring.take(10 * kBlock), 0);
}

}  // namespace
}  // namespace accel
