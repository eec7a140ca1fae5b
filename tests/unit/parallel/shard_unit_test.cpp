#include "parallel/shard_unit.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/util/accumulate.h>

#include <limits>

#include "kernels/fp8/fp8_matrix.h"
#include "kernels/memory/deferred_init.h"
#include "parallel/fp8/fp8_scales.h"
#include "parallel/row_share.h"
#include "tests/unit/parallel/ranks.h"

namespace accel::shard_unit_test {
namespace {

at::Tensor numbers(int64_t rows, int64_t row_size) {
  return at::arange(rows * row_size, at::kFloat).view({rows, row_size});
}

/// A parameter that gets numbers() when it gets memory; `written` counts the elements.
Parameter waiting(const std::string& name, std::vector<int64_t> sizes, int64_t& written) {
  at::Tensor tensor = at::empty(sizes);
  EXPECT_TRUE(is_deferred(tensor));
  write_rows(tensor, [&written](const at::Tensor& to, int64_t first) {
    const c10::NoGradGuard no_grad;
    written += to.numel();
    to.copy_(numbers(first + to.size(0), to.size(1)).narrow(0, first, to.size(0)));
  });
  return {name, tensor.requires_grad_(name != "frozen")};
}

TEST(ShardUnitTest, OnlyRowsOfDeferredParametersAreWritten) {
  on_ranks(2, [](Communicator& group) {
    int64_t written = 0;
    std::vector<Parameter> parameters;
    {
      const DeferredInit scope;
      parameters = {waiting("trained", {41, 30}, written), waiting("frozen", {1, 2000}, written)};
    }
    SingleProcess alone;
    ShardUnit unit(parameters, {}, {&group, &alone}, {});
    const bool first = group.rank() == 0;
    EXPECT_EQ(written, first ? 21 * 30 + 2000 : 20 * 30);
    EXPECT_EQ(unit.shards()[0].local.size(0), first ? 21 : 20);
    EXPECT_EQ(unit.shards()[1].local.size(0), first ? 1 : 0);
    for (const Parameter& item : parameters) {
      EXPECT_FALSE(is_deferred(item.local));
      EXPECT_EQ(item.local.storage().nbytes(), 0U);
    }
    unit.unshard();
    EXPECT_TRUE(at::equal(parameters[0].local, numbers(41, 30)));
    EXPECT_TRUE(at::equal(parameters[1].local, numbers(1, 2000)));
    unit.reshard();
  });
}

/// The shape, and whether the gradient has the layout of a transposed tensor.
struct Case {
  std::vector<int64_t> sizes;
  bool is_transposed = false;
};

at::Tensor gradient_of(const Case& item) {
  const int64_t rows = item.sizes.front();
  const at::Tensor flat = at::arange(c10::multiply_integers(item.sizes), at::kFloat);
  return item.is_transposed ? flat.view({-1, rows}).t() : flat.view(item.sizes);
}

TEST(ShardUnitTest, AnyNumberOfRowsIsGatheredAndReduced) {
  constexpr int64_t kRanks = 5;
  // Equal shares; a smaller last one, and ranks without rows; fewer rows than ranks; none.
  const std::vector<Case> cases = {{{10, 3}}, {{11, 3}, true}, {{11, 2, 2}}, {{6}},
                                   {{1, 4}},  {{5, 2}, true},  {{0, 3}}};
  on_ranks(kRanks, [&](Communicator& group) {
    std::vector<Parameter> parameters;
    std::vector<at::Tensor> whole;
    for (const Case& item : cases) {
      whole.push_back(gradient_of(item).contiguous() + 0.5);
      parameters.push_back(
          {std::to_string(whole.size()), whole.back().clone().requires_grad_(true)});
    }
    parameters.push_back({"without a gradient", at::zeros({7, 2}).requires_grad_(true)});
    SingleProcess alone;
    ShardUnit unit(parameters, {}, {&group, &alone}, {});
    unit.unshard();
    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_TRUE(at::equal(parameters[i].local, whole[i])) << i;
      parameters[i].local.mutable_grad() =
          gradient_of(cases[i]) * static_cast<double>(group.rank() + 1);
    }
    unit.start_reduce();
    unit.finish_reduce();
    constexpr int64_t kAllRanks = 1 + 2 + 3 + 4 + 5;
    for (size_t i = 0; i < cases.size(); ++i) {
      const RowShare own = row_share(cases[i].sizes.front(), kRanks, group.rank());
      EXPECT_TRUE(at::equal(unit.shards()[i].local.grad(),
                            gradient_of(cases[i]).narrow(0, own.first, own.count) * kAllRanks))
          << i;
    }
    EXPECT_FALSE(unit.shards().back().local.grad().defined());
    unit.reshard();
  });
}

/// The values of the whole weight in fp8, and the scale.
void expect_casts_of(const at::Tensor& weight, const at::Tensor& gathered,
                     const GatheredWeight& found) {
  const Fp8Matrix wanted = to_fp8(weight.to(at::kBFloat16), at::kFloat8_e4m3fn,
                                  /*by_row=*/false, /*to_power_of_2=*/false);
  EXPECT_EQ(gathered.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(gathered, wanted.values.to(at::kBFloat16)));
  ASSERT_TRUE(found.inverse_scale.defined());
  EXPECT_TRUE(at::equal(found.inverse_scale, wanted.inverse_scale));
}

TEST(ShardUnitTest, GatheredValuesOfFp8AreThoseOfTheWholeWeight) {
  for (const int64_t ranks : {2, 4}) {
    on_ranks(ranks, [](Communicator& group) {
      // Rows of growing magnitudes: the largest is on the last rank.
      const at::Tensor weight = numbers(11, 6).sub(7).mul(1e-3), other = numbers(5, 3).add(0.3);
      const std::vector<Parameter> parameters = {{"weight", weight.clone().requires_grad_(true)},
                                                 {"other", other.clone().requires_grad_(true)}};
      const auto gathered = std::make_shared<GatheredWeight>();
      const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
      UnitGroup unit(parameters, {.autocast = {"weight"}, .fp8 = {{"weight", gathered}}},
                     make_mesh(world, {.shard = group.world()}), {}, {});
      Fp8Scales scales;
      scales.add(unit);
      unit.set_compute_dtype(at::kBFloat16);
      scales.update();
      unit.unshard();
      expect_casts_of(weight, parameters[0].local, *gathered);
      EXPECT_TRUE(at::equal(parameters[1].local, other));
      {
        const c10::NoGradGuard no_grad;
        unit.shards()[0].local.mul_(3);
      }
      unit.invalidate();
      scales.invalidate();
      scales.update();
      unit.unshard();
      expect_casts_of(weight.mul(3), parameters[0].local, *gathered);
      // Passes without autocast read the weight itself.
      unit.set_compute_dtype({});
      unit.unshard();
      EXPECT_TRUE(at::equal(parameters[0].local, weight.mul(3)));
      EXPECT_FALSE(gathered->inverse_scale.defined());
      unit.reshard();
    });
  }
}

TEST(ShardUnitTest, AWeightThatIsNotFiniteHasAFiniteScaleOfFp8) {
  on_ranks(2, [](Communicator& group) {
    at::Tensor weight = numbers(4, 2);
    weight[3][1] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<Parameter> parameters = {{"weight", weight.clone()}};
    const auto gathered = std::make_shared<GatheredWeight>();
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    UnitGroup unit(parameters, {.autocast = {"weight"}, .fp8 = {{"weight", gathered}}},
                   make_mesh(world, {.shard = 2}), {}, {});
    Fp8Scales scales;
    scales.add(unit);
    unit.set_compute_dtype(at::kBFloat16);
    scales.update();
    unit.unshard();
    EXPECT_EQ(gathered->inverse_scale.item<float>(), 1);
    EXPECT_TRUE(at::equal(parameters[0].local.isnan(), weight.isnan()));
    unit.reshard();
  });
}

}  // namespace
}  // namespace accel::shard_unit_test
