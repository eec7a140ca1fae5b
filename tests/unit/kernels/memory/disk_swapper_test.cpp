#include "kernels/memory/disk_swapper.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::disk_swapper_test {
namespace {

std::shared_ptr<DiskSwapper> swapper_in(const TempFolder& folder, ScratchCalls calls = {}) {
  return std::make_shared<DiskSwapper>(
      std::make_unique<ScratchFile>(folder.path(), std::move(calls)));
}

/// Float numbers in a buffer, from `first` on.
at::Tensor floats(const StateBuffer& buffer) {
  return buffer.bytes().narrow(0, 0, buffer.bytes().numel() / 4 * 4).view(at::kFloat);
}

void fill(const StateBuffer& buffer, float first) {
  const SwapScope scope = buffer.scope(SwapAccess::kOverwrite);
  const at::Tensor to = floats(buffer);
  to.copy_(at::arange(to.numel(), at::kFloat).add(first));
}

bool holds(const StateBuffer& buffer, float first) {
  const SwapScope scope = buffer.scope(SwapAccess::kRead);
  const at::Tensor all = floats(buffer);
  return at::equal(all, at::arange(all.numel(), at::kFloat).add(first));
}

TEST(DiskSwapperTest, SlabsKeepTheirContentsOutOfMemory) {
  const TempFolder folder;
  const auto swapper = swapper_in(folder);
  std::vector<StateBuffer> buffers;
  // Less than a block, no multiple of it, and several pieces of I/O.
  for (const int64_t bytes : {64, 12'340, 20 << 20}) buffers.emplace_back(swapper, bytes, bytes);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < buffers.size(); ++i)
      fill(buffers[i], static_cast<float>(i + 10 * round));
    swapper->drain();
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(buffers[i].bytes().storage().nbytes(), 0U);
      buffers[(i + 1) % 3].prefetch(SwapAccess::kRead);
      EXPECT_TRUE(holds(buffers[i], static_cast<float>(i + 10 * round)));
    }
  }
  EXPECT_EQ(swapper->disk_bytes(), 4096 + 16384 + (20 << 20));
  EXPECT_EQ(swapper->written_bytes(), 3 * swapper->disk_bytes());
}

TEST(DiskSwapperTest, ChangesStayAndThoseOfAReadDoNot) {
  const TempFolder folder;
  const auto swapper = swapper_in(folder);
  const StateBuffer buffer(swapper, 3 * kSlabBlock, kSlabBlock);
  fill(buffer, 0);
  swapper->drain();  // else the next scope has the buffer that is being written
  {
    const SwapScope scope = buffer.scope(SwapAccess::kRead);
    floats(buffer).add_(1);
  }
  swapper->drain();
  EXPECT_TRUE(holds(buffer, 0));
  {
    const SwapScope scope = buffer.scope(SwapAccess::kChange);
    floats(buffer).add_(5);
  }
  EXPECT_TRUE(holds(buffer, 5)) << "from the buffer that is being written";
  swapper->drain();
  const int64_t read = swapper->read_bytes(), written = swapper->written_bytes();
  {
    const StateBuffer large(swapper, 64 << 10, 64 << 10);
    fill(large, 0);  // the buffer of the other slab is free by now
    fill(large, 0);
  }
  {
    const SwapScope scope = buffer.scope(SwapAccess::kUpdate);
    floats(buffer).narrow(0, 0, 1024).add_(2);
    const SwapScope nested = buffer.scope(SwapAccess::kRead);
    EXPECT_EQ(floats(buffer)[1024].item<float>(), 1029);
  }
  EXPECT_LE(swapper->read_bytes() - read, 3 * kSlabBlock);
  EXPECT_EQ(swapper->written_bytes() - written, 2 * (64 << 10) + kSlabBlock)
      << "the first part alone";
  swapper->drain();
  const at::Tensor all = swapper->read(buffer.bytes()).view(at::kFloat);
  EXPECT_EQ(all[1023].item<float>(), 1023 + 7);
  EXPECT_EQ(all[1024].item<float>(), 1024 + 5);
}

TEST(DiskSwapperTest, TensorsOfASlabAreReadWithoutSwapping) {
  const TempFolder folder;
  const auto swapper = swapper_in(folder);
  const StateBuffer buffer(swapper, 40'000, 40'000);
  fill(buffer, 1);
  at::Tensor part;
  {
    const SwapScope scope = buffer.scope(SwapAccess::kRead);
    part = floats(buffer).narrow(0, 1500, 40).view({4, 10});
    EXPECT_TRUE(swapper->read(part).is_same(part)) << "it is in memory";
  }
  EXPECT_EQ(swapper->find(part), buffer.slab());
  EXPECT_TRUE(at::equal(swapper->read(part), at::arange(1501, 1541, at::kFloat).view({4, 10})));
  const at::Tensor own = at::full({2}, 3.0);
  EXPECT_FALSE(swapper->find(own));
  EXPECT_TRUE(swapper->read(own).is_same(own));
}

TEST(DiskSwapperTest, LaterChangesAreMadeOnce) {
  const TempFolder folder;
  const auto swapper = swapper_in(folder);
  const StateBuffer buffer(swapper, 4096, 4096);
  fill(buffer, 0);
  swapper->after_next_swap_in(*buffer.slab(), [&] { floats(buffer).add_(1); });
  swapper->after_next_swap_in(*buffer.slab(), [&] { floats(buffer).mul_(2); });
  {
    const SwapScope scope = buffer.scope(SwapAccess::kRead);
    EXPECT_EQ(floats(buffer)[3].item<float>(), 8);
  }
  swapper->drain();
  EXPECT_TRUE(holds(buffer, 0)) << "once, and not written";
  swapper->after_next_swap_in(*buffer.slab(), [&] { floats(buffer).add_(1); });
  fill(buffer, 4);
  EXPECT_TRUE(holds(buffer, 4)) << "dropped by an overwrite";
}

TEST(DiskSwapperTest, SpaceOfRemovedSlabsIsUsedAgain) {
  const TempFolder folder;
  const auto swapper = swapper_in(folder);
  for (int i = 0; i < 5; ++i) {
    const StateBuffer a(swapper, 8192, 8192), b(swapper, 4096, 4096);
    fill(a, 1);
    fill(b, 2);
    EXPECT_TRUE(holds(a, 1));
    EXPECT_TRUE(holds(b, 2));
  }
  EXPECT_EQ(swapper->disk_bytes(), 3 * 4096);
}

TEST(DiskSwapperTest, FailedWritesEndTheRunAndNotTheProcess) {
  const TempFolder folder;
  std::atomic<int> error = 0;
  ScratchCalls calls;
  calls.write = [&](int fd, const void* from, size_t bytes, off_t offset) -> ssize_t {
    if (error == 0) return ::pwrite(fd, from, bytes, offset);
    errno = error;
    return -1;
  };
  {
    const auto swapper = swapper_in(folder, calls);
    const StateBuffer first(swapper, 1 << 20, 1 << 20);
    fill(first, 0);
    swapper->drain();
    error = EIO;
    fill(first, 1);
    EXPECT_THROW(swapper->drain(), IoError);
    EXPECT_THROW(fill(first, 1), IoError) << "and all later calls";
    EXPECT_THROW(swapper->read(first.bytes()), IoError);
  }
  const auto swapper = swapper_in(folder, calls);
  const StateBuffer first(swapper, 1 << 20, 1 << 20), second(swapper, 1 << 20, 1 << 20);
  fill(first, 1);
  fill(second, 1);  // waits for the write before, in a destructor
  EXPECT_THROW(fill(second, 2), IoError);
}

TEST(DiskSwapperTest, FailedReadsEndTheRun) {
  const TempFolder folder;
  ScratchCalls calls;
  calls.read = [](int, void*, size_t, off_t) -> ssize_t { return 0; };
  const auto swapper = swapper_in(folder, calls);
  const StateBuffer buffer(swapper, 4096, 4096);
  fill(buffer, 0);
  swapper->drain();
  buffer.prefetch(SwapAccess::kRead);
  EXPECT_THROW(holds(buffer, 0), IoError);
  EXPECT_THROW(holds(buffer, 0), IoError) << "and never has other contents";
}

TEST(DiskSwapperTest, AFullDiskIsFoundWhenSpaceIsReserved) {
  const TempFolder folder;
  ScratchCalls calls;
  calls.reserve = [](int, off_t offset, off_t bytes) { return offset + bytes > 8192 ? ENOSPC : 0; };
  const auto swapper = swapper_in(folder, calls);
  const StateBuffer fits(swapper, 8192, 8192);
  EXPECT_THROW(StateBuffer(swapper, 1, 1), IoError);
  EXPECT_EQ(swapper->disk_bytes(), 8192);
}

TEST(DiskSwapperTest, AnEstimateCountsWithoutAFile) {
  const auto swapper = std::make_shared<DiskSwapper>(nullptr);
  const StateBuffer buffer(swapper, 5000, 5000);
  {
    const SwapScope scope = buffer.scope(SwapAccess::kChange);
    EXPECT_EQ(buffer.bytes().storage().nbytes(), 5000U);
  }
  EXPECT_EQ(buffer.bytes().storage().nbytes(), 0U);
  EXPECT_EQ(swapper->disk_bytes(), 8192);
  EXPECT_EQ(swapper->read_bytes(), 8192);
}

}  // namespace
}  // namespace accel::disk_swapper_test
