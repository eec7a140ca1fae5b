#include "kernels/memory/deferred_init.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "kernels/memory/skip_init.h"

namespace accel::deferred_init_test {
namespace {

/// Tensors initialized in all ways: whole and in part, once and twice, with sizes and types for
/// which ATen draws numbers differently.
std::vector<at::Tensor> initialized() {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> out;
  for (const int64_t size : {2048, 4099, 5000}) out.push_back(at::empty({size}).normal_(1, 0.02));
  for (const at::ScalarType type : {at::kDouble, at::kBFloat16, at::kHalf}) {
    out.push_back(at::empty({70, 71}, type).normal_());
    out.push_back(at::empty({70, 71}, type).uniform_(-2, 3));
  }
  out.push_back(at::empty({33, 65}).uniform_(-1, 1));
  out.back().normal_(0, 0.02);
  out.back().select(0, 3).zero_();
  out.push_back(at::empty({40, 50}).uniform_(0, 1));
  out.back().t().narrow(0, 5, 20).normal_();
  out.back().mul_(0.5).clamp_(-0.2, 0.4);
  out.push_back(at::empty({2000}).exponential_());
  out.push_back(at::empty({2000}, at::kLong).random_(17));
  for (const at::Tensor& made : {at::zeros({50, 40}), at::ones({50, 40}), at::full({50, 40}, 3.5),
                                 at::rand({50, 40}), at::randn({50, 40})}) {
    out.push_back(made);
  }
  out.push_back(at::empty({}).normal_());  // by another algorithm, which keeps a number
  out.push_back(at::empty({50, 40}).normal_().reshape({40, 50}));
  out.push_back(out.front().add(out.front()));
  out.push_back(at::empty({7}).normal_());
  return out;
}

at::Tensor deferred(std::vector<int64_t> sizes) {
  at::Tensor out = at::empty(sizes);
  EXPECT_TRUE(is_deferred(out));
  return out;
}

TEST(DeferredInitTest, GivesTheBitsOfImmediateInitialization) {
  at::manual_seed(5);
  const std::vector<at::Tensor> wanted = initialized();
  const at::Tensor next = at::rand({3});
  at::manual_seed(5);
  std::vector<at::Tensor> found;
  {
    const DeferredInit scope;
    found = initialized();
  }
  EXPECT_TRUE(at::equal(at::rand({3}), next));  // the generator has advanced
  int64_t waiting = 0;
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = found.size(); i-- > 0;) {  // in another order
    waiting += is_deferred(found[i]) ? 1 : 0;
    materialize(found[i]);
    EXPECT_TRUE(at::equal(found[i], wanted[i])) << i;
  }
  EXPECT_EQ(waiting, 18);  // not the small ones, and not those that were read
}

TEST(DeferredInitTest, IsActiveInItsScope) {
  EXPECT_FALSE(DeferredInit::is_active());
  {
    const DeferredInit deferred;
    EXPECT_TRUE(DeferredInit::is_active());
  }
  EXPECT_FALSE(DeferredInit::is_active());
}

TEST(DeferredInitTest, TensorsHaveNoMemory) {
  std::optional<DeferredInit> scope(std::in_place);
  const at::Tensor tensor = deferred({64, 64}).normal_();
  const at::Tensor view = tensor.narrow(0, 3, 2).t();
  scope.reset();
  EXPECT_TRUE(is_deferred(tensor));
  EXPECT_TRUE(is_deferred(view));
  EXPECT_EQ(tensor.storage().data(), nullptr);
  EXPECT_EQ(tensor.storage().nbytes(), 64 * 64 * 4);
  EXPECT_THROW(tensor.data_ptr<float>(), c10::Error);
  materialize(view);
  EXPECT_FALSE(is_deferred(tensor));
  EXPECT_TRUE(at::equal(view, tensor.narrow(0, 3, 2).t()));
  EXPECT_FALSE(is_deferred(at::empty({64, 64})));  // outside the scope
}

TEST(DeferredInitTest, ReadingGivesMemory) {
  const DeferredInit scope;
  EXPECT_FALSE(is_deferred(at::empty({1023})));  // 4 KiB are the least
  const at::Tensor tensor = deferred({1024}).fill_(2);
  EXPECT_EQ(tensor.sum().item<float>(), 2048);
  EXPECT_FALSE(is_deferred(tensor));
  const at::Tensor target = deferred({1024});
  target.copy_(tensor);
  EXPECT_TRUE(at::equal(target, tensor));
}

TEST(DeferredInitTest, OnlyNamedTensorsStayDeferred) {
  const DeferredInit scope;
  const at::Tensor kept = deferred({1024}).fill_(1), other = deferred({1024}).fill_(2),
                   viewed = deferred({1024}).fill_(3), view = viewed.narrow(0, 1, 5);
  scope.materialize_except({kept, viewed, kept});
  EXPECT_TRUE(is_deferred(kept));
  EXPECT_FALSE(is_deferred(other));
  EXPECT_EQ(view[4].item<float>(), 3);
  EXPECT_EQ(other[1023].item<float>(), 2);
}

/// A writer of 0, 1, 2, ... and the numbers of elements that it wrote.
RowWriter counter(std::vector<int64_t>& written) {
  return [&written](const at::Tensor& to, int64_t first) {
    const int64_t row = to.numel() / to.size(0);
    written.push_back(to.numel());
    to.copy_(at::arange(first * row, (first + to.size(0)) * row).view(to.sizes()));
  };
}

TEST(DeferredInitTest, RowsAreWrittenAlone) {
  std::vector<int64_t> written;
  std::optional<DeferredInit> scope(std::in_place);
  const at::Tensor tensor = deferred({100, 20});
  write_rows(tensor, counter(written));
  const at::Tensor drawn = deferred({100, 20}).fill_(1);
  scope.reset();
  EXPECT_TRUE(written.empty());
  const at::Tensor rows = at::empty({3, 20});
  copy_rows(tensor, 40, rows);
  EXPECT_EQ(written, (std::vector<int64_t>{60}));
  EXPECT_TRUE(is_deferred(tensor));
  EXPECT_EQ(rows[2][19].item<float>(), 859);
  copy_rows(tensor, 100, at::empty({0, 20}));
  EXPECT_EQ(written.size(), 1U);
  materialize(tensor);
  EXPECT_TRUE(at::equal(tensor.narrow(0, 40, 3), rows));
  copy_rows(tensor, 40, rows);
  EXPECT_EQ(written, (std::vector<int64_t>{60, 2000}));
  copy_rows(drawn, 40, rows);
  EXPECT_TRUE(at::equal(rows, at::ones({3, 20})));
  EXPECT_FALSE(is_deferred(drawn));
}

TEST(DeferredInitTest, RowsOfAStorageFilledByteByByteAreWrittenAlone) {
  const std::vector<float> values(5000, 4.5F);
  std::vector<size_t> written;
  const DeferredInit scope;
  const at::Tensor bytes = at::empty({20'000}, at::kByte);
  write_rows(bytes, [&](const at::Tensor& to, int64_t first) {
    written.push_back(to.nbytes());
    std::memcpy(to.mutable_data_ptr(), reinterpret_cast<const std::byte*>(values.data()) + first,
                to.nbytes());
  });
  const at::Tensor weight = at::empty({0}).set_(bytes.storage(), 1000, {40, 100}, {100, 1});
  const at::Tensor rows = at::zeros({2, 100});
  materialize(rows);
  copy_rows(weight, 38, rows);
  EXPECT_EQ(written, (std::vector<size_t>{800}));
  EXPECT_TRUE(is_deferred(weight));
  EXPECT_TRUE(at::equal(rows, at::full({2, 100}, 4.5)));
  materialize(weight);
  EXPECT_TRUE(at::equal(weight, at::full({40, 100}, 4.5)));
}

TEST(DeferredInitTest, UnderSkipInitNothingIsTakenFromTheGenerator) {
  at::manual_seed(9);
  const at::Tensor wanted = at::empty({64}).normal_();
  at::manual_seed(9);
  {
    const SkipInit skip;
    const DeferredInit scope;
    const at::Tensor tensor = at::empty({64, 64}).normal_();
    EXPECT_TRUE(is_deferred(tensor));
  }
  EXPECT_TRUE(at::equal(at::empty({64}).normal_(), wanted));
}

TEST(DeferredInitTest, MovingToTheSameDeviceKeepsTheRecording) {
  at::manual_seed(9);
  const at::Tensor wanted = at::empty({64, 64}).normal_();
  at::manual_seed(9);
  std::optional<DeferredInit> scope(std::in_place);
  const at::Tensor tensor = deferred({64, 64}).normal_(), shared = deferred({64, 64}).fill_(2);
  const at::Tensor half = shared.narrow(0, 0, 32);
  scope.reset();
  move_deferred(tensor, at::kCPU);
  EXPECT_TRUE(is_deferred(tensor));
  materialize(tensor);
  EXPECT_TRUE(at::equal(tensor, wanted));
  move_deferred(shared, at::kCPU);
  EXPECT_FALSE(is_deferred(shared));
  EXPECT_EQ(half[31][63].item<float>(), 2);
}

}  // namespace
}  // namespace accel::deferred_init_test
