// Collectives of tensor and sequence parallelism against one process.
#include "parallel/tensor_ranks.h"

#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <array>
#include <mutex>

#include "tests/unit/parallel/ranks.h"

namespace accel::tensor_ranks_test {
namespace {

at::Tensor numbers(std::vector<int64_t> shape, int64_t seed) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::arange(seed, seed + count, at::kFloat).mul(0.7).sin().view(shape);
}

void expect_close(const at::Tensor& found, const at::Tensor& wanted) {
  ASSERT_EQ(found.sizes(), wanted.sizes());
  EXPECT_LT(found.sub(wanted).abs().max().item().toDouble(), 2e-6);
}

void with_tensor_ranks(int64_t count, bool sequence,
                       const std::function<void(const TensorRanks&)>& body) {
  on_ranks(count, [&](Communicator& group) {
    const std::shared_ptr<Communicator> shared(std::shared_ptr<Communicator>(), &group);
    body(*make_tensor_ranks(shared, sequence));
  });
}

/// A layer by columns and one by rows around a sine, with a scale before them that all ranks have.
struct Pair {
  at::Tensor up = numbers({6, 4}, 1), down = numbers({4, 6}, 2), scale = numbers({4}, 3);
  at::Tensor input = numbers({2, 8, 4}, 4), towards = numbers({2, 8, 4}, 5);

  /// Gradients of the input, the scale and both weights.
  std::vector<at::Tensor> gradients_of(const at::Tensor& output) {
    output.mul(towards).sum().backward();
    return {input.grad(), scale.grad(), up.grad(), down.grad()};
  }
  void require() {
    for (at::Tensor* leaf : {&up, &down, &scale, &input}) {
      *leaf = leaf->clone();
      leaf->requires_grad_(true);
    }
  }
};

TEST(TensorRanksTest, DividedLayersHaveTheOutputAndGradientsOfOneProcess) {
  Pair whole;
  whole.require();
  const at::Tensor wanted =
      at::linear(at::linear(whole.input.mul(whole.scale), whole.up).sin(), whole.down);
  const std::vector<at::Tensor> gradients = whole.gradients_of(wanted);
  with_tensor_ranks(2, false, [&](const TensorRanks& ranks) {
    Pair own;
    own.up = own.up.narrow(0, ranks.rank() * 3, 3);
    own.down = own.down.narrow(1, ranks.rank() * 3, 3);
    own.require();
    const at::Tensor x = ranks.enter(own.input.mul(own.scale));
    const at::Tensor output = ranks.leave(at::linear(at::linear(x, own.up).sin(), own.down));
    expect_close(output, wanted);
    const std::vector<at::Tensor> found = own.gradients_of(output);
    expect_close(found[0], gradients[0]);
    expect_close(found[1], gradients[1]);
    expect_close(found[2], gradients[2].narrow(0, ranks.rank() * 3, 3));
    expect_close(found[3], gradients[3].narrow(1, ranks.rank() * 3, 3));
  });
}

TEST(TensorRanksTest, PartsOfTheSequenceHaveTheirGradientsAndWholeLayersPartsOfASum) {
  Pair whole;
  whole.require();
  const at::Tensor wanted =
      at::linear(at::linear(whole.input.mul(whole.scale), whole.up).sin(), whole.down);
  const std::vector<at::Tensor> gradients = whole.gradients_of(wanted);
  with_tensor_ranks(2, true, [&](const TensorRanks& ranks) {
    EXPECT_TRUE(ranks.divides_sequence());
    Pair own;
    own.up = own.up.narrow(0, ranks.rank() * 3, 3);
    own.down = own.down.narrow(1, ranks.rank() * 3, 3);
    own.input = ranks.own_part(own.input, 1);
    own.towards = ranks.own_part(own.towards, 1);
    own.require();
    const at::Tensor x = ranks.enter(own.input.mul(own.scale));
    EXPECT_EQ(x.size(1), 8);
    const at::Tensor output = ranks.leave(at::linear(at::linear(x, own.up).sin(), own.down));
    expect_close(output, ranks.own_part(wanted, 1));
    const std::vector<at::Tensor> found = own.gradients_of(output);
    expect_close(found[0], ranks.own_part(gradients[0], 1));
    expect_close(ranks.reduce(found[1], Reduce::kSum), gradients[1]);
    expect_close(found[2], gradients[2].narrow(0, ranks.rank() * 3, 3));
    expect_close(found[3], gradients[3].narrow(1, ranks.rank() * 3, 3));
  });
}

TEST(TensorRanksTest, TheSequenceIsWholeWithoutGradients) {
  with_tensor_ranks(2, true, [](const TensorRanks& ranks) {
    EXPECT_EQ(ranks.padded_length(7), 8);
    const c10::NoGradGuard no_grad;
    EXPECT_FALSE(ranks.divides_sequence());
    EXPECT_EQ(ranks.padded_length(7), 7);
    const at::Tensor x = numbers({1, 7, 2}, 1);
    EXPECT_TRUE(ranks.own_part(x, 1).is_same(x));
    EXPECT_TRUE(at::equal(ranks.enter(x), x));
    EXPECT_TRUE(at::equal(ranks.leave(x), x.mul(2)));
  });
}

TEST(TensorRanksTest, FeaturesOfUnevenPartsAreGathered) {
  const at::Tensor all = numbers({2, 3, 7}, 1), towards = numbers({2, 3, 7}, 2);
  with_tensor_ranks(3, false, [&](const TensorRanks& ranks) {
    const int64_t first = ranks.rank() * 3, count = ranks.rank() < 2 ? 3 : 1;
    const at::Tensor own = all.narrow(2, first, count).clone().requires_grad_(true);
    const at::Tensor found = ranks.gather_features(own, 7);
    EXPECT_TRUE(at::equal(found, all));
    found.mul(towards).sum().backward();
    EXPECT_TRUE(at::equal(own.grad(), towards.narrow(2, first, count)));
  });
}

TEST(TensorRanksTest, ReductionsLeaveTheirArgument) {
  with_tensor_ranks(2, false, [](const TensorRanks& ranks) {
    const at::Tensor x = at::zeros({2}, at::kLong).add(ranks.rank() + 1);
    EXPECT_TRUE(at::equal(ranks.reduce(x, Reduce::kSum), at::zeros({2}, at::kLong).add(3)));
    EXPECT_TRUE(at::equal(ranks.reduce(x, Reduce::kMax), at::zeros({2}, at::kLong).add(2)));
    EXPECT_EQ(x[0].item<int64_t>(), ranks.rank() + 1);
  });
}

TEST(TensorRanksTest, OwnRandomStreamsDifferAndAdvanceTheSharedOneEqually) {
  const at::Tensor start = at::globalContext().defaultGenerator(at::kCPU).get_state();
  std::mutex one_at_a_time;  // ranks in threads have one generator
  std::array<std::array<at::Tensor, 2>, 2> own;
  std::array<at::Tensor, 2> shared;
  with_tensor_ranks(2, false, [&](const TensorRanks& ranks) {
    const auto rank = static_cast<size_t>(ranks.rank());
    const std::scoped_lock lock(one_at_a_time);
    at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
    generator.set_state(start);
    for (at::Tensor& drawn : own[rank]) {
      const auto stream = ranks.own_random_stream(at::kCPU);
      drawn = at::rand({4});
    }
    shared[rank] = at::rand({4});
  });
  EXPECT_FALSE(at::equal(own[0][0], own[0][1]));
  EXPECT_FALSE(at::equal(own[0][0], own[1][0]));
  EXPECT_FALSE(at::equal(own[0][1], own[1][1]));
  EXPECT_TRUE(at::equal(shared[0], shared[1]));
}

}  // namespace
}  // namespace accel::tensor_ranks_test
