// Samples that are rows of arrays: batches of them are those that are made sample by sample.
#include <numeric>

#include "data/loader/host_batch.h"
#include "data/loader/loader.h"
#include "tests/unit/data/array_files.h"

namespace accel::columns_test {
namespace {

/// A dataset that has no columns().
class OneByOne final : public Dataset {
 public:
  explicit OneByOne(std::shared_ptr<const Dataset> all) : all_(std::move(all)) {}
  int64_t size() const override { return all_->size(); }
  Sample sample(int64_t index) const override { return all_->sample(index); }
  DataShape shape() const override { return all_->shape(); }
  std::string fingerprint() const override { return all_->fingerprint(); }

 private:
  std::shared_ptr<const Dataset> all_;
};

template <class T>
std::vector<T> counted(size_t count) {
  std::vector<T> out(count);
  std::iota(out.begin(), out.end(), T{1});
  return out;
}

std::string text_of(const Array& array) {
  if (array.empty()) return "none";
  return name_of(array.type()) + to_string(array.shape()) +
         std::string(reinterpret_cast<const char*>(array.data()), array.bytes());
}

/// All of a batch, bit for bit.
std::string text_of(const HostBatch& batch) {
  std::string text = text_of(batch.inputs) + text_of(batch.targets) + text_of(batch.lengths) +
                     text_of(batch.segments) + std::to_string(batch.padded) + "/" +
                     std::to_string(batch.micro_batch_index);
  for (const int64_t id : batch.ids) text += " " + std::to_string(id);
  return text;
}

std::vector<std::string> windows_of(std::shared_ptr<const Dataset> dataset,
                                    const LoaderOptions& options) {
  Loader loader(std::move(dataset), {}, options);
  std::vector<std::string> all;
  GlobalBatch global_batch;
  for (int i = 0; i < 9; ++i) {
    global_batch = loader.next(std::move(global_batch));
    std::string text = std::to_string(global_batch.digest);
    for (const HostBatch& batch : global_batch.micro_batches) text += "|" + text_of(batch);
    all.push_back(text);
  }
  return all;
}

class ColumnsTest : public ArrayFilesTest {
 protected:
  /// 13 samples each.
  std::vector<std::shared_ptr<const Dataset>> datasets() {
    const std::string labels = npy_file<int32_t>("<i4", "(13,)", counted<int32_t>(13));
    const auto bytes = counted<uint8_t>(13 * 6);
    return {
        npy(npy_file<uint8_t>("|u1", "(13, 2, 3)", bytes), labels, "scale: true\n"),
        npy(npy_file<float>("<f4", "(13, 5)", counted<float>(65)), labels),
        npy(npy_file<float>("<f4", "(13, 5)", counted<float>(65)),
            npy_file<float>("<f4", "(13, 2)", counted<float>(26))),
        npy(npy_file<int64_t>("<i8", "(13, 4)", counted<int64_t>(52)),
            npy_file<int64_t>("<i8", "(13, 4)", counted<int64_t>(52))),
        idx(idx_file({13, 2, 3}, {bytes.begin(), bytes.end()}),
            idx_file({13}, std::string(13, '\2'))),
        csv("target: y\n"),
        csv("target: [x, z]\ntarget_type: number\n"),
    };
  }

  /// Numbers and a category.
  std::shared_ptr<const Dataset> csv(const std::string& options) {
    std::string rows = "x,c,y,z\n";
    for (int i = 0; i < 13; ++i) {
      rows += std::to_string(i) + "," + "abc"[i % 3] + "," + std::to_string(i % 2) + ",0.5\n";
    }
    put("t.csv", rows);
    return build<Dataset>("type: csv\npath: " + folder_.path("t.csv") +
                          "\none_hot: {c: [a, b, c]}\n" + options);
  }
};

TEST_F(ColumnsTest, BatchesAreThoseMadeSampleBySample) {
  for (const auto& dataset : datasets()) {
    ASSERT_TRUE(dataset->columns());
    const auto one_by_one = std::make_shared<OneByOne>(dataset);
    for (const int64_t workers : {0, 2}) {
      LoaderOptions options = {.batch = 8, .micro_batch = 4, .workers = workers, .seed = 5};
      EXPECT_EQ(windows_of(dataset, options), windows_of(one_by_one, options));
      options.world = 2;
      options.rank = 1;
      EXPECT_EQ(windows_of(dataset, options), windows_of(one_by_one, options));
    }
  }
}

TEST_F(ColumnsTest, TransformsAreGivenTheSamples) {
  const std::shared_ptr<const Dataset> dataset = datasets().front();
  std::vector<std::unique_ptr<Transform>> transforms;
  transforms.push_back(build<Transform>("type: flatten", TransformContext{dataset->shape()}));
  Loader loader(dataset, std::move(transforms), {});
  EXPECT_EQ(loader.next().micro_batches.front().inputs.shape(), (Shape{1, 6}));
}

TEST_F(ColumnsTest, InputsThatBecomeAnotherTypeAreNone) {
  const std::string labels = npy_file<int64_t>("<i8", "(2,)", {0, 1});
  EXPECT_FALSE(npy(npy_file<uint8_t>("|u1", "(2, 1)", {1, 2}), labels)->columns());
  EXPECT_FALSE(npy(npy_file<double>("<f8", "(2, 1)", {1, 2}), labels)->columns());
  EXPECT_FALSE(npy(npy_file<int32_t>("<i4", "(2, 1)", {1, 2}), labels)->columns());
  EXPECT_FALSE(
      idx(idx_file({1, 2}, "\x33\x01"), idx_file({1}, "\x03"), "scale: false\n")->columns());
}

TEST_F(ColumnsTest, ABatchTakesTheMemoryOfOneThatIsDone) {
  const Columns columns = *datasets().front()->columns();
  HostBatch first = column_batch(columns, {3, 7});
  const std::byte* const memory = first.inputs.data();
  HostBatch second = column_batch(columns, {1, 2}, std::move(first));
  EXPECT_EQ(second.inputs.data(), memory);
  EXPECT_EQ(text_of(second), text_of(column_batch(columns, {1, 2})));
  const HostBatch larger = column_batch(columns, {1, 2, 12}, std::move(second));
  EXPECT_EQ(text_of(larger), text_of(column_batch(columns, {1, 2, 12})));
}

TEST_F(ColumnsTest, WhatSomebodyHoldsIsNotWrittenAgain) {
  const Columns columns = *datasets().front()->columns();
  HostBatch first = column_batch(columns, {3, 7});
  const Array held = first.inputs;
  const std::string before = text_of(held);
  const HostBatch second = column_batch(columns, {1, 2}, std::move(first));
  EXPECT_EQ(text_of(held), before);
  EXPECT_EQ(text_of(second), text_of(column_batch(columns, {1, 2})));
}

}  // namespace
}  // namespace accel::columns_test
