#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <atomic>
#include <numeric>

#include "runner/dist/group_ranks.h"
#include "runner/dist/operations.h"
#include "tests/unit/dist/ranks.h"

namespace accel {
namespace {

std::vector<float> floats(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous().to(at::kFloat).flatten();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

std::vector<float> counted(int64_t first, int64_t last) {
  std::vector<float> numbers(static_cast<size_t>(last - first + 1));
  std::iota(numbers.begin(), numbers.end(), static_cast<float>(first));
  return numbers;
}

/// [1..W] + W * rank, as in Accelerate's own tests of its operations.
at::Tensor numbers_of(const Communicator& group) {
  const int64_t w = group.world();
  return at::arange(1, w + 1, at::kFloat).add(static_cast<double>(w * group.rank()));
}

class CollectivesTest : public testing::TestWithParam<int64_t> {};

TEST_P(CollectivesTest, GatherIsInTheOrderOfRanks) {
  on_ranks(GetParam(), [](Communicator& group) {
    const int64_t w = group.world();
    EXPECT_EQ(floats(gather(group, numbers_of(group))), counted(1, w * w));
    const at::Tensor strided = at::arange(2 * w, at::kFloat).view({w, 2}).t().select(0, 0);
    ASSERT_TRUE(w == 1 || !strided.is_contiguous());
    EXPECT_EQ(gather(group, strided).numel(), w * w);
    const at::Tensor scalar = at::full({}, static_cast<double>(group.rank()));
    EXPECT_EQ(floats(gather(group, scalar)), counted(0, w - 1));
  });
}

TEST_P(CollectivesTest, TextsOfUnequalLengthAreGathered) {
  on_ranks(GetParam(), [](Communicator& group) {
    const auto rank = static_cast<size_t>(group.rank());
    const std::vector<std::string> texts = gather_texts(group, std::string(rank * 100, 'x'));
    for (size_t r = 0; r < texts.size(); ++r) EXPECT_EQ(texts[r], std::string(r * 100, 'x'));
    EXPECT_EQ(broadcast_text(group, "of rank " + std::to_string(rank)), "of rank 0");
  });
}

TEST_P(CollectivesTest, RowsOfPartsComeInThePartsOrderWhoeverHasThem) {
  // Part p is rank p's and has p + 1 rows; of several ranks, the first has none at all.
  on_ranks(GetParam(), [](Communicator& group) {
    const int64_t rank = group.rank();
    std::vector<RowsOfPart> own;
    std::vector<float> wanted;
    if (rank > 0 || group.world() == 1) {
      own.push_back({rank, at::full({rank + 1, 2}, -static_cast<double>(rank), at::kFloat)});
    }
    for (int64_t part = group.world() > 1 ? 1 : 0; part < group.world(); ++part) {
      wanted.insert(wanted.end(), static_cast<size_t>(2 * (part + 1)), -static_cast<float>(part));
    }
    EXPECT_EQ(floats(gather_parts(group, own, group.world())), wanted);
  });
}

TEST_P(CollectivesTest, BytesOfAnyTypeComeThrough) {
  on_ranks(GetParam(), [](Communicator& group) {
    const int64_t big = (int64_t{1} << 62) + 12345;
    const at::Tensor row = at::full({1}, big, at::kLong);
    const at::Tensor all = gather_parts(group, {{group.rank(), row}}, group.world());
    ASSERT_EQ(all.scalar_type(), at::kLong);
    for (int64_t i = 0; i < group.world(); ++i) EXPECT_EQ(all[i].item().toLong(), big);
  });
}

TEST_P(CollectivesTest, RanksOffersThemAll) {
  on_ranks(GetParam(), [](Communicator& group) {
    GroupRanks ranks(group);
    const int64_t w = ranks.world();
    EXPECT_EQ(floats(ranks.gather(numbers_of(group))), counted(1, w * w));
    const at::Tensor mine = at::full({1}, static_cast<double>(ranks.rank()));
    EXPECT_EQ(floats(ranks.reduce(mine, Reduce::kMax)), counted(w - 1, w - 1));
    EXPECT_EQ(floats(ranks.broadcast(mine)), counted(0, 0));
    EXPECT_EQ(floats(mine), counted(ranks.rank(), ranks.rank()));
    EXPECT_TRUE(ranks.any(ranks.rank() == w - 1));
    EXPECT_FALSE(ranks.any(false));
    const at::Tensor padded = ranks.pad_across_processes(at::ones({ranks.rank() + 1}),
                                                         {.dim = 0, .value = 3, .first = true});
    ASSERT_EQ(padded.numel(), w);
    EXPECT_EQ(padded[0].item().toDouble(), ranks.rank() == w - 1 ? 1 : 3);
  });
}

TEST(RanksTest, TheMainProcessIsFirst) {
  std::atomic<bool> done = false;
  on_ranks(2, [&](Communicator& group) {
    GroupRanks ranks(group);
    ranks.main_process_first([&] {
      if (ranks.is_main()) {
        done = true;
      } else {
        EXPECT_TRUE(done);
      }
    });
  });
}

TEST_P(CollectivesTest, BroadcastGivesTheTensorOfTheRoot) {
  on_ranks(GetParam(), [](Communicator& group) {
    const at::Tensor tensor = numbers_of(group);
    group.broadcast(tensor, group.world() - 1, "test");
    const int64_t w = group.world();
    EXPECT_EQ(floats(tensor), counted(w * (w - 1) + 1, w * w));
  });
}

TEST_P(CollectivesTest, PaddingBringsAllToTheLongest) {
  on_ranks(GetParam(), [](Communicator& group) {
    const int64_t size = group.is_main() ? group.world() + 1 : group.world();
    const at::Tensor padded = pad_across_processes(group, at::ones({size}));
    ASSERT_EQ(padded.numel(), group.world() + 1);
    EXPECT_EQ(padded[group.world()].item().toDouble(), group.is_main() ? 1 : 0);
    const at::Tensor first = pad_across_processes(group, at::ones({size, 2}), 0, 7, true);
    EXPECT_EQ(first[0][0].item().toDouble(), group.is_main() ? 1 : 7);
  });
}

TEST(ReduceTest, SumMeanAndMaximumOfTwoRanks) {
  on_ranks(2, [](Communicator& group) {
    const at::Tensor mine = numbers_of(group);  // [1, 2] and [3, 4]
    EXPECT_EQ(floats(reduce(group, mine, Reduce::kSum)), (std::vector<float>{4, 6}));
    EXPECT_EQ(floats(reduce(group, mine, Reduce::kMean)), (std::vector<float>{2, 3}));
    EXPECT_EQ(floats(reduce(group, mine, Reduce::kMax)), (std::vector<float>{3, 4}));
    EXPECT_EQ(floats(mine), floats(numbers_of(group)));
  });
}

TEST_P(CollectivesTest, ATriggerOfOneRankIsSeenByAllOnce) {
  on_ranks(GetParam(), [](Communicator& group) {
    EXPECT_FALSE(any_rank(group, false, "trigger"));
    EXPECT_TRUE(any_rank(group, group.rank() == group.world() - 1, "trigger"));
    EXPECT_FALSE(any_rank(group, false, "trigger"));
  });
}

TEST_P(CollectivesTest, ANumberOfOneRankComesOutExact) {
  on_ranks(GetParam(), [](Communicator& group) {
    std::vector<double> numbers(static_cast<size_t>(group.world()));
    numbers[static_cast<size_t>(group.rank())] = 0.1 + static_cast<double>(group.rank());
    sum_over_ranks(group, numbers, "test");
    for (size_t r = 0; r < numbers.size(); ++r) {
      EXPECT_EQ(numbers[r], 0.1 + static_cast<double>(r));
    }
  });
}

TEST(CollectivesErrorTest, ARankThatIsGoneIsNamedWithTheCollective) {
  const auto errors = join_each(requests_of(2), [](Communicator& group) {
    group.barrier("together");
    if (group.rank() == 1) throw std::runtime_error("left");
    const at::Tensor tensor = at::zeros({4});
    group.all_reduce(tensor, ReduceOp::kSum, "gradients");
  });
  EXPECT_EQ(errors[1], "left");
  EXPECT_EQ(errors[0].rfind("rank 0 lost another rank in collective 2 'gradients': ", 0), 0u)
      << errors[0];
}

TEST(CollectivesErrorTest, ARankThatDoesNotComeIsATimeout) {
  std::vector<JoinRequest> requests = requests_of(2);
  for (JoinRequest& request : requests) request.timeout = 1;
  const auto errors = join_each(requests, [](Communicator& group) {
    if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(3));
    const at::Tensor tensor = at::zeros({4});
    group.all_reduce(tensor, ReduceOp::kSum, "gradients");
  });
  EXPECT_EQ(errors[0],
            "rank 0 waited for the others for longer than 'accelerator.timeout' in collective 1 "
            "'gradients'");
}

INSTANTIATE_TEST_SUITE_P(Worlds, CollectivesTest, testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace accel
