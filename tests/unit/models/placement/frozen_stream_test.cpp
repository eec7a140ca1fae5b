// Streaming of frozen blocks: the order of reads in passes of training, and the limit.
#include "models/placement/frozen_stream.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "kernels/memory/deferred_init.h"
#include "models/layers/activation_checkpoint.h"

namespace accel {
namespace {

constexpr int64_t kBlockBytes = 64 << 10;
constexpr int64_t kBlocks = 6;

/// Multiplies by the first number of its weight, which autograd saves.
struct ScaleBlock : torch::nn::Module, Block {
  at::Tensor forward(const at::Tensor& x) {
    runs.push_back(is_recomputing());
    return x.mul(weight.narrow(0, 0, 1));
  }
  at::Tensor weight;
  std::vector<bool> runs;  ///< whether each was a repeated one
};

/// Blocks of one weight each, which follow each other in a file.
class FrozenStreamTest : public ::testing::Test {
 protected:
  FrozenStreamTest() {
    {
      std::ofstream file(path_, std::ios::binary);
      const int64_t count = kBlockBytes / static_cast<int64_t>(sizeof(float));
      for (int64_t i = 0; i < kBlocks * count; ++i) {
        const auto value = static_cast<float>(i / count + 1);
        file.write(reinterpret_cast<const char*>(&value), sizeof(value));
      }
    }
    file_ = map_file(path_);
    ::sync();  // pages that are not written yet stay in memory
  }
  ~FrozenStreamTest() override { std::filesystem::remove(path_); }

  std::span<const std::byte> bytes(size_t block) const {
    return file_.view.subspan(block * kBlockBytes, kBlockBytes);
  }
  std::vector<StreamedUnit> units() {
    std::vector<StreamedUnit> out;
    for (size_t i = 0; i < kBlocks; ++i) {
      blocks_[i].weight = at::from_blob(const_cast<std::byte*>(bytes(i).data()),
                                        {kBlockBytes / static_cast<int64_t>(sizeof(float))},
                                        at::TensorOptions().dtype(at::kFloat));
      out.push_back({&blocks_[i], mapped_ranges({bytes(i)}), {blocks_[i].weight}});
      blocks_[i].set_checkpointing(ActivationCheckpointing::kBlocks);
    }
    return out;
  }
  bool is_mapped(size_t block) const {
    return blocks_[block].weight.const_data_ptr() == bytes(block).data();
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = input;
    for (size_t i = 0; i < kBlocks; ++i) {
      x = run_block(blocks_[i], x);
      EXPECT_FALSE(is_mapped(i)) << i;
      if (i > 0) {
        EXPECT_TRUE(is_mapped(i - 1)) << i;
      }
    }
    return x;
  }
  /// A step of training; the product of 1 to 6.
  void step() {
    const at::Tensor input = at::ones({4}).set_requires_grad(true);
    const at::Tensor output = forward(input);
    EXPECT_EQ(output.sum().item<float>(), 4 * 720);
    output.sum().backward();
    EXPECT_EQ(input.grad().sum().item<float>(), 4 * 720);
    EXPECT_FALSE(is_mapped(0));
    EXPECT_TRUE(is_mapped(1));
  }

  std::string path_ = testing::TempDir() + "accel-frozen-" + std::to_string(::getpid());
  SharedBytes file_;
  std::array<ScaleBlock, kBlocks> blocks_;
};

TEST_F(FrozenStreamTest, ReadsInOrderAndInReverseAndKeepsTheBlocksAtTheTurns) {
  FrozenStream stream(units(), 2 * kBlockBytes);
  stream.follow_recomputation(nullptr);
  EXPECT_EQ(stream.slots(), 2);
  for (int i = 0; i < 3; ++i) step();
  for (const ScaleBlock& block : blocks_) {
    EXPECT_EQ(block.runs, std::vector<bool>({false, true, false, true, false, true}));
  }
  const FrozenFigures figures = stream.figures();
  // The last block of a forward pass is that of the backward pass, and likewise the first one.
  EXPECT_EQ(figures.uses, 3 * (2 * kBlocks - 2) + 1);
  EXPECT_GE(figures.bytes, 3 * (2 * kBlocks - 4) * kBlockBytes);
  EXPECT_LE(figures.bytes, (3 * (2 * kBlocks - 2) + 1) * kBlockBytes);
}

TEST_F(FrozenStreamTest, FillsConvertedWeightsByTheirWriters) {
  constexpr int64_t kCount = kBlockBytes / static_cast<int64_t>(sizeof(float));
  std::array<std::atomic<int>, kBlocks> fills = {};
  std::vector<StreamedUnit> converted(kBlocks);
  std::unique_ptr<FrozenStream> stream;
  {
    const DeferredInit deferred;
    for (size_t i = 0; i < kBlocks; ++i) {
      blocks_[i].weight = at::empty({kCount}, at::kFloat);
      write_rows(blocks_[i].weight, [&fills, i](const at::Tensor& to, int64_t first) {
        EXPECT_EQ(first, 0);
        ++fills[i];
        to.fill_(static_cast<double>(i + 1));
      });
      converted[i].block = &blocks_[i];
      converted[i].converted = {blocks_[i].weight};
      blocks_[i].set_checkpointing(ActivationCheckpointing::kBlocks);
    }
    stream = std::make_unique<FrozenStream>(std::move(converted), 2 * kBlockBytes);
    stream->follow_recomputation(nullptr);
    EXPECT_EQ(stream->slots(), 2);
    ASSERT_EQ(stream->sources().size(), 6U);
    deferred.materialize_except(stream->sources());
  }
  for (const at::Tensor& source : stream->sources()) EXPECT_TRUE(is_deferred(source));
  for (const ScaleBlock& block : blocks_) EXPECT_FALSE(is_deferred(block.weight));
  const at::Tensor input = at::ones({4}).set_requires_grad(true);
  for (int i = 0; i < 2; ++i) {
    at::Tensor x = input;
    for (ScaleBlock& block : blocks_) x = run_block(block, x);
    EXPECT_EQ(x.sum().item<float>(), 4 * 720);
    x.sum().backward();
  }
  EXPECT_EQ(input.grad().sum().item<float>(), 2 * 4 * 720);
  EXPECT_EQ(blocks_[3].weight.storage().data(), nullptr);
  EXPECT_GE(fills[2], 3);  // both passes, twice, less what memory kept
  stream.reset();
  EXPECT_TRUE(is_deferred(blocks_[0].weight));
  materialize(blocks_[0].weight);
  EXPECT_EQ(blocks_[0].weight.sum().item<float>(), static_cast<float>(kCount));
}

TEST_F(FrozenStreamTest, MixesWeightsOfTheFileWithConvertedOnes) {
  std::vector<StreamedUnit> mixed = units();
  at::Tensor added;
  std::unique_ptr<FrozenStream> stream;
  {
    const DeferredInit deferred;
    added = at::empty({3, 1024}, at::kFloat);
    write_rows(added, [](const at::Tensor& to, int64_t) { to.fill_(7); });
    mixed[1].converted = {added};
    stream = std::make_unique<FrozenStream>(std::move(mixed), 2 * (kBlockBytes + 3 * 4096));
    stream->follow_recomputation(nullptr);
  }
  EXPECT_EQ(stream->slot_bytes(), kBlockBytes + 3 * 4096);
  step();
  const c10::NoGradGuard no_grad;
  const at::Tensor x = run_block(blocks_[1], at::ones({1}));
  EXPECT_EQ(x.item<float>(), 2);
  EXPECT_EQ(added.sum().item<float>(), 7 * 3 * 1024);
}

TEST_F(FrozenStreamTest, ReadsLessWithMoreMemory) {
  FrozenStream stream(units(), 4 * kBlockBytes);
  stream.follow_recomputation(nullptr);
  EXPECT_EQ(stream.slots(), 4);
  for (int i = 0; i < 4; ++i) step();
  // At each turn three blocks beside the first or last one are in memory.
  EXPECT_LE(stream.figures().bytes, (kBlocks + 4 * 2 * (kBlocks - 3)) * kBlockBytes);
}

TEST_F(FrozenStreamTest, ReadsBlocksOnceThatAllFit) {
  FrozenStream stream(units(), int64_t{1} << 40);
  stream.follow_recomputation(nullptr);
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(stream.slots(), kBlocks);
  EXPECT_EQ(stream.figures().bytes, kBlocks * kBlockBytes);
}

TEST_F(FrozenStreamTest, StreamsPassesWithoutGradients) {
  FrozenStream stream(units(), 1);
  stream.follow_recomputation(nullptr);
  const c10::NoGradGuard no_grad;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(forward(at::ones({1})).item<float>(), 720);
  for (const ScaleBlock& block : blocks_) EXPECT_EQ(block.runs.size(), 3U);
}

TEST_F(FrozenStreamTest, FollowsPassesThatEndEarly) {
  FrozenStream stream(units(), 2 * kBlockBytes);
  stream.follow_recomputation(nullptr);
  at::Tensor x = at::ones({1});
  for (size_t i = 0; i < 3; ++i) x = run_block(blocks_[i], x);
  step();
}

TEST_F(FrozenStreamTest, ThrowsErrorsOfReadingWhereBytesAreNeeded) {
  std::vector<StreamedUnit> broken = units();
  std::filesystem::resize_file(path_, 2 * kBlockBytes);
  FrozenStream stream(std::move(broken), 2 * kBlockBytes);
  try {
    for (auto& block : blocks_) block.hooks()->before_forward();
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(std::string(error.what()),
              "cannot read the weights of '" + path_ + "': the file has ended");
  }
}

TEST_F(FrozenStreamTest, LeavesTheBlocksWithoutHooks) {
  {
    FrozenStream stream(units(), 2 * kBlockBytes);
    stream.follow_recomputation(nullptr);
    blocks_[0].hooks()->before_forward();
  }
  EXPECT_EQ(blocks_[0].hooks(), nullptr);
  EXPECT_EQ(blocks_[0].inputs(), nullptr);
  EXPECT_TRUE(is_mapped(0));
}

}  // namespace
}  // namespace accel
