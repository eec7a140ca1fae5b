// Host batches as tensors: whose memory it is, and for how long.
#include "train/step/device_batches.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace accel::device_batches_test {
namespace {

HostBatch host_batch(int64_t samples, int64_t first_id) {
  HostBatch batch;
  batch.inputs = Array(DType::kF32, {samples, 3});
  for (float& value : batch.inputs.mutable_as<float>()) value = static_cast<float>(first_id);
  batch.targets = Array(DType::kI64, {samples});
  for (int64_t& value : batch.targets.mutable_as<int64_t>()) value = first_id;
  for (int64_t i = 0; i < samples; ++i) batch.ids.push_back(first_id + i);
  return batch;
}

GlobalBatch window_of(std::initializer_list<int64_t> sizes, int64_t first_id) {
  GlobalBatch global_batch;
  for (const int64_t size : sizes) global_batch.micro_batches.push_back(host_batch(size, first_id));
  return global_batch;
}

TEST(ToBatchTest, TensorsAreViewsThatKeepTheMemory) {
  std::optional<HostBatch> host = host_batch(2, 5);
  const std::weak_ptr<const void> inputs = host->inputs.owner(), targets = host->targets.owner();
  const std::byte* const data = host->inputs.data();
  std::optional<Batch> batch = to_batch(*host);
  host.reset();
  EXPECT_EQ(batch->inputs.const_data_ptr(), data);
  EXPECT_EQ(batch->inputs.sizes(), (at::IntArrayRef{2, 3}));
  EXPECT_EQ(batch->inputs.sum().item<float>(), 30);
  EXPECT_EQ(batch->targets.scalar_type(), at::kLong);
  EXPECT_EQ(batch->ids, (std::vector<int64_t>{5, 6}));
  EXPECT_FALSE(batch->lengths.defined() || batch->segments.defined());
  const at::Tensor row = batch->inputs[1];
  batch.reset();
  EXPECT_TRUE(targets.expired());
  EXPECT_FALSE(inputs.expired());  // the row is of that memory
  EXPECT_EQ(row.sum().item<float>(), 15);
}

TEST(ToBatchTest, MemoryIsGivenBackByWhateverThreadHasTheLastTensor) {
  std::optional<HostBatch> host = host_batch(2, 5);
  const std::weak_ptr<const void> inputs = host->inputs.owner();
  Batch batch = to_batch(*host);
  host.reset();
  std::thread([tensor = std::move(batch.inputs)] {}).join();
  EXPECT_TRUE(inputs.expired());
  EXPECT_EQ(to_batch(host_batch(1, 7)).inputs.sum().item<float>(), 21);
}

TEST(ToBatchTest, WindowsOfAnySizesFollowEachOther) {
  at::Tensor kept;
  for (const auto& sizes : {std::initializer_list<int64_t>{4, 2}, {1}, {}, {3, 3, 3}}) {
    const GlobalBatch global_batch = window_of(sizes, 10 * static_cast<int64_t>(sizes.size()));
    const DeviceBatches batches(global_batch);
    ASSERT_EQ(batches.list().size(), sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(batches.list()[i].ids, global_batch.micro_batches[i].ids);
      EXPECT_EQ(batches.list()[i].inputs.const_data_ptr(),
                global_batch.micro_batches[i].inputs.data());
    }
    if (!kept.defined()) kept = batches.list()[0].targets;
  }
  EXPECT_EQ(kept.sum().item<int64_t>(), 80);
}

TEST(ToBatchTest, AWindowsTensorsGoWithItsBatches) {
  std::optional<GlobalBatch> global_batch = window_of({2}, 1);
  const std::weak_ptr<const void> inputs = global_batch->micro_batches[0].inputs.owner();
  {
    const DeviceBatches outer(*global_batch);
    const DeviceBatches inner(*global_batch);  // each has a list of its own
    EXPECT_NE(outer.list().data(), inner.list().data());
    global_batch.reset();
    EXPECT_FALSE(inputs.expired());
  }
  EXPECT_TRUE(inputs.expired());
}

}  // namespace
}  // namespace accel::device_batches_test
