#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "core/base/environment.h"
#include "core/base/text.h"
#include "parallel/operations.h"
#include "tests/unit/parallel/ranks.h"

namespace accel::collectives_test {
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

struct Ranks {
  int64_t world;
  CpuBackend backend;
};

std::vector<JoinRequest> requests_of(const Ranks& ranks) {
  std::vector<JoinRequest> requests = accel::requests_of(ranks.world);
  for (JoinRequest& request : requests) request.cpu_backend = ranks.backend;
  return requests;
}

std::vector<JoinRequest> requests_of(int64_t world) {
  return requests_of({world, CpuBackend::kAuto});
}

void on_ranks(const Ranks& ranks, const std::function<void(Communicator&)>& body) {
  for (const std::string& error : join_each(requests_of(ranks), body)) EXPECT_EQ(error, "");
}

void on_ranks(int64_t world, const std::function<void(Communicator&)>& body) {
  on_ranks({world, CpuBackend::kAuto}, body);
}

class CollectivesTest : public testing::TestWithParam<Ranks> {};

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
    std::vector<MicroBatchRows> own;
    std::vector<float> wanted;
    if (rank > 0 || group.world() == 1) {
      own.push_back({rank, at::full({rank + 1, 2}, -static_cast<double>(rank), at::kFloat)});
    }
    for (int64_t part = group.world() > 1 ? 1 : 0; part < group.world(); ++part) {
      wanted.insert(wanted.end(), static_cast<size_t>(2 * (part + 1)), -static_cast<float>(part));
    }
    EXPECT_EQ(floats(gather_micro_batches(group, own, group.world())), wanted);
  });
}

TEST_P(CollectivesTest, BytesOfAnyTypeComeThrough) {
  on_ranks(GetParam(), [](Communicator& group) {
    const int64_t big = (int64_t{1} << 62) + 12345;
    const at::Tensor row = at::full({1}, big, at::kLong);
    const at::Tensor all = gather_micro_batches(group, {{group.rank(), row}}, group.world());
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

TEST_P(CollectivesTest, AllGatherFillsOneTensor) {
  on_ranks(GetParam(), [](Communicator& group) {
    const int64_t w = group.world();
    const at::Tensor own = numbers_of(group).view({w, 1});
    const at::Tensor all = at::full({w * w, 1}, -1.0);
    group.start_all_gather(all, own, "test")->wait();
    EXPECT_EQ(floats(all), counted(1, w * w));
  });
}

TEST_P(CollectivesTest, ReduceScatterLeavesOwnShareOfTheSum) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    on_ranks(GetParam(), [type](Communicator& group) {
      const int64_t w = group.world(), rank = group.rank();
      // Rank r has [r, r + 1, ...]; the share of rank r is elements 2r and 2r + 1.
      const at::Tensor in = at::arange(rank, rank + 2 * w, at::kFloat).to(type);
      const at::Tensor out = at::full({2}, -1.0, in.options());
      group.start_reduce_scatter(out, in, ReduceOp::kSum, "test")->wait();
      const auto share = static_cast<float>(w * 2 * rank + w * (w - 1) / 2);
      EXPECT_EQ(floats(out), (std::vector<float>{share, share + static_cast<float>(w)}));
    });
  }
}

TEST_P(CollectivesTest, AllToAllExchangesUnequalNumbersOfRows) {
  on_ranks(GetParam(), [](Communicator& group) {
    // Rank r sends s + 1 rows of the value 10 r + s to rank s.
    const int64_t w = group.world(), rank = group.rank();
    std::vector<at::Tensor> rows;
    std::vector<int64_t> sent;
    std::vector<float> expected;
    for (int64_t other = 0; other < w; ++other) {
      rows.push_back(at::full({other + 1, 2}, static_cast<double>(10 * rank + other)));
      sent.push_back(other + 1);
      expected.insert(expected.end(), static_cast<size_t>(2 * (rank + 1)),
                      static_cast<float>(10 * other + rank));
    }
    const at::Tensor out = at::full({w * (rank + 1), 2}, -1.0);
    const std::vector<int64_t> received(static_cast<size_t>(w), rank + 1);
    group.start_all_to_all(out, at::cat(rows), received, sent, "test")->wait();
    EXPECT_EQ(floats(out), expected);
  });
}

TEST_P(CollectivesTest, MessagesOfAPairArriveInTheirOrder) {
  on_ranks(GetParam(), [](Communicator& group) {
    // A ring: all ranks send first, two messages to the next rank.
    const int64_t w = group.world(), rank = group.rank();
    if (w == 1) return;
    const int64_t next = (rank + 1) % w, last = (rank + w - 1) % w;
    const at::Tensor first = at::full({3}, static_cast<double>(rank));
    const at::Tensor second = at::full({1}, static_cast<double>(-rank));
    const at::Tensor from_first = at::full({3}, -9.0), from_second = at::full({1}, -9.0);
    group
        .start_messages({{Message::Kind::kSend, first, next},
                         {Message::Kind::kSend, second, next},
                         {Message::Kind::kReceive, from_first, last},
                         {Message::Kind::kReceive, from_second, last}},
                        "ring")
        ->wait();
    EXPECT_EQ(floats(from_first), std::vector<float>(3, static_cast<float>(last)));
    EXPECT_EQ(floats(from_second), std::vector<float>(1, static_cast<float>(-last)));
  });
}

TEST(PointToPointTest, ARankSendsToAnother) {
  on_ranks(2, [](Communicator& group) {
    const at::Tensor tensor = at::full({2}, static_cast<double>(5 + group.rank()));
    if (group.rank() == 0) {
      group.send(tensor, 1, "test");
    } else {
      group.receive(tensor, 0, "test");
    }
    EXPECT_EQ(floats(tensor), (std::vector<float>{5, 5}));
  });
}

TEST(SplitTest, GroupsAreNumberedAsListedAndWorkAlone) {
  on_ranks(4, [](Communicator& group) {
    const auto half = group.split({{2, 0}, {1, 3}});
    const std::vector<int64_t> ranks = {1, 0, 0, 1};
    EXPECT_EQ(half->rank(), ranks[static_cast<size_t>(group.rank())]);
    EXPECT_EQ(half->world(), 2);
    const at::Tensor own = at::full({1}, static_cast<double>(group.rank()));
    const std::vector<float> expected =
        group.rank() % 2 == 0 ? std::vector<float>{2, 0} : std::vector<float>{1, 3};
    EXPECT_EQ(floats(half->all_gather(own, "test")), expected);
    // A group of a group; a single rank needs no other.
    const auto alone = half->split({{0}, {1}});
    EXPECT_EQ(floats(alone->all_gather(own, "test")), floats(own));
  });
}

TEST(SplitTest, EveryRankIsInOneGroup) {
  on_ranks(2, [](Communicator& group) {
    EXPECT_THROW(group.split({{0}, {0, 1}}), std::logic_error);
    EXPECT_THROW(group.split({{group.rank()}}), std::logic_error);
  });
}

TEST(SplitTest, ALostRankOfAGroupIsNamedByItsNumberInAllAndItsPlaceInTheMesh) {
  std::vector<JoinRequest> requests = requests_of(4);
  for (JoinRequest& request : requests)
    request.places = {"pp 0", "pp 0", "pp 1, tp 0", "pp 1, tp 1"};
  const auto errors = join_each(requests, [](Communicator& group) {
    const auto half = group.split({{0, 1}, {2, 3}});
    half->barrier("together");
    if (group.rank() == 3) throw std::runtime_error("left");
    const at::Tensor tensor = at::zeros({4});
    if (group.rank() == 2) half->all_reduce(tensor, ReduceOp::kSum, "gradients");
  });
  EXPECT_EQ(errors[2],
            text("rank 2 (pp 1, tp 0) lost rank 3 (pp 1, tp 1) on host '{}' in collective 2 "
                 "'gradients'",
                 host_name()));
}

std::vector<std::string> errors_when_checked(const std::function<void(Communicator&)>& body) {
  std::vector<JoinRequest> requests = requests_of(2);
  for (JoinRequest& request : requests) request.checked = true;
  return join_each(requests, body);
}

TEST(CheckedGroupTest, RowsThatDoNotMatchAreNamed) {
  const auto errors = errors_when_checked([](Communicator& group) {
    const at::Tensor in = at::zeros({3, 1});
    const std::vector<int64_t> sent = {1, 2}, received = {1, 1};
    group.start_all_to_all(at::zeros({2, 1}), in, received, sent, "rows")->wait();
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(error, "rank 1 expects 1 rows of rank 0 in 'rows', which sends 2");
  }
}

TEST(CheckedGroupTest, CollectivesPassAndGroupsAreCheckedToo) {
  const auto errors = errors_when_checked([](Communicator& group) {
    const int64_t rank = group.rank();
    const at::Tensor two = at::full({2}, 1.0), one = at::full({1}, 0.0);
    group.start_reduce_scatter(one, two, ReduceOp::kSum, "sums")->wait();
    EXPECT_EQ(floats(one), (std::vector<float>{2}));
    group.start_all_to_all(two, at::full({2}, static_cast<double>(rank)), {1, 1}, {1, 1}, "rows")
        ->wait();
    EXPECT_EQ(floats(two), (std::vector<float>{0, 1}));
    const auto same = group.split({{0, 1}});
    same->all_reduce(one, rank == 0 ? ReduceOp::kSum : ReduceOp::kMax, "numbers");
  });
  const std::string both =
      "ranks call different collectives: rank 0: sum 'numbers' of Float [1]; rank 1: maximum "
      "'numbers' of Float [1]";
  EXPECT_EQ(errors[0], both);
  EXPECT_EQ(errors[1], both);
}

TEST(CollectivesErrorTest, ARankThatIsGoneIsNamedWithTheCollective) {
  const auto errors = join_each(requests_of(2), [](Communicator& group) {
    group.barrier("together");
    if (group.rank() == 1) throw std::runtime_error("left");
    const at::Tensor tensor = at::zeros({4});
    group.all_reduce(tensor, ReduceOp::kSum, "gradients");
  });
  EXPECT_EQ(errors[1], "left");
  EXPECT_EQ(errors[0],
            text("rank 0 lost rank 1 on host '{}' in collective 2 'gradients'", host_name()));
}

TEST(CollectivesErrorTest, TheStepIsNamed) {
  std::vector<JoinRequest> requests = requests_of(2);
  requests[1].step = [] { return int64_t{12}; };
  const auto errors = join_each(requests, [](Communicator& group) {
    group.barrier("joined");  // until then the other rank may still be connecting
    if (group.rank() == 0) throw std::runtime_error("left");
    group.barrier("together");
  });
  EXPECT_EQ(errors[1], text("rank 1 lost rank 0 on host '{}' at step 12, in collective 2 "
                            "'together'",
                            host_name()));
}

TEST(CollectivesErrorTest, OneOfTheRanksAtAnAddressIsNamed) {
  const auto errors = join_each(requests_of({3, CpuBackend::kGloo}), [](Communicator& group) {
    group.barrier("together");
    if (group.rank() == 2) throw std::runtime_error("left");
    const at::Tensor tensor = at::zeros({4});
    group.all_reduce(tensor, ReduceOp::kSum, "gradients");
  });
  // The rank that notices first names the others at the address; both report the same.
  for (const std::string& error : {errors[0], errors[1]}) {
    EXPECT_NE(error.find(" lost one of ranks "), error.npos) << error;
    EXPECT_NE(error.find(text(" on host '{}' in collective 2 'gradients'", host_name())),
              error.npos)
        << error;
  }
}

/// Rank 0 ends with an error too, and with it the store.
TEST(CollectivesErrorTest, ARankThatNoticesLateNamesTheLostOneToo) {
  const auto errors = join_each(requests_of({3, CpuBackend::kGloo}), [](Communicator& group) {
    group.barrier("together");
    if (group.rank() == 2) throw std::runtime_error("left");
    if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const at::Tensor tensor = at::zeros({4});
    group.all_reduce(tensor, ReduceOp::kSum, "gradients");
  });
  EXPECT_NE(errors[0].find("rank 0 lost one of ranks "), errors[0].npos) << errors[0];
  EXPECT_NE(errors[1].find("rank 1 lost one of ranks "), errors[1].npos) << errors[1];
}

TEST(CollectivesErrorTest, AnotherErrorIsNoLostRank) {
  const auto errors = join_each(requests_of({2, CpuBackend::kGloo}), [](Communicator& group) {
    group.barrier("joined");
    group.all_reduce(at::zeros({4}, at::kShort), ReduceOp::kSum, "gradients");
  });
  EXPECT_EQ(errors[0], "rank 0 failed in collective 2 'gradients': Invalid scalar type");
}

TEST(CollectivesErrorTest, ARankThatDoesNotComeIsATimeout) {
  std::vector<JoinRequest> requests = requests_of(2);
  for (JoinRequest& request : requests) request.timeout = 1;
  const auto errors = join_each(requests, [](Communicator& group) {
    if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(6));
    const at::Tensor tensor = at::zeros({4});
    group.all_reduce(tensor, ReduceOp::kSum, "gradients");
  });
  EXPECT_EQ(errors[0],
            text("rank 0 waited longer than 'accelerator.timeout' for rank 1 on host '{}' in "
                 "collective 1 'gradients'",
                 host_name()));
}

/// The rank itself is known, and the first to notice names it for all.
TEST(CollectivesErrorTest, ALostRankInSharedMemoryIsNamed) {
  const auto errors =
      join_each(requests_of({3, CpuBackend::kSharedMemory}), [](Communicator& group) {
        group.barrier("together");
        if (group.rank() == 2) throw std::runtime_error("left");
        if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
        group.all_reduce(at::zeros({4}), ReduceOp::kSum, "gradients");
      });
  for (int64_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(
        errors[static_cast<size_t>(rank)],
        text("rank {} lost rank 2 on host '{}' in collective 2 'gradients'", rank, host_name()));
  }
}

/// What a rank has after an all-reduce and a reduce-scatter of `size` elements for each rank.
std::vector<float> sums_by(const Ranks& ranks, int64_t size, at::ScalarType type) {
  std::vector<float> sums;
  on_ranks(ranks, [&](Communicator& group) {
    // A sum in another order has other bits.
    const at::Tensor all = at::arange(size * group.world() + 1, at::kFloat)
                               .mul(0.37 + static_cast<double>(group.rank()))
                               .sin()
                               .to(type);
    const at::Tensor in = all.narrow(0, 1, size * group.world()).clone();
    const at::Tensor out = at::zeros({size}, type);
    group.all_reduce(all, ReduceOp::kSum, "test");
    group.start_reduce_scatter(out, in, ReduceOp::kSum, "test")->wait();
    if (group.rank() == group.world() - 1) sums = floats(at::cat({all, out}));
  });
  return sums;
}

TEST(SharedMemoryTest, SumsHaveTheBitsOfGloo) {
  for (const int64_t world : {2, 3, 4, 5}) {
    for (const int64_t size : {1, 13, 5'001, 700'001}) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        EXPECT_EQ(sums_by({world, CpuBackend::kSharedMemory}, size, type),
                  sums_by({world, CpuBackend::kGloo}, size, type))
            << world << " ranks, " << size << " elements of each";
      }
    }
  }
}

TEST(SharedMemoryTest, CollectivesAreWaitedForInAnyOrder) {
  on_ranks({3, CpuBackend::kSharedMemory}, [](Communicator& group) {
    const at::Tensor first = at::full({20'000}, 1.0), second = at::full({2}, 2.0);
    const auto one = group.start_all_reduce(first, ReduceOp::kSum, "first");
    const auto two = group.start_all_reduce(second, ReduceOp::kMax, "second");
    two->wait();
    one->wait();
    EXPECT_EQ(floats(second), std::vector<float>(2, 2));
    EXPECT_EQ(floats(first), std::vector<float>(20'000, 3));
  });
}

TEST(SharedMemoryTest, TensorsOfOtherSizesAreAnError) {
  const auto errors =
      join_each(requests_of({2, CpuBackend::kSharedMemory}), [](Communicator& group) {
        group.all_reduce(at::zeros({2 + group.rank()}), ReduceOp::kSum, "gradients");
      });
  EXPECT_EQ(errors[0], "rank 0 failed in collective 1 'gradients': rank 1 has 12 bytes, and not 8");
  const auto rows = join_each(requests_of({2, CpuBackend::kSharedMemory}), [](Communicator& group) {
    const std::vector<int64_t> sent = {1, 2}, received = {1, 1};
    group.start_all_to_all(at::zeros({2, 1}), at::zeros({3, 1}), received, sent, "rows")->wait();
  });
  EXPECT_EQ(rows[1], "rank 1 failed in collective 1 'rows': rank 0 sends 8 bytes, and not 4");
}

TEST(SharedMemoryTest, RanksOfSeveralMachinesAreRefusedOrUseGloo) {
  for (const CpuBackend backend : {CpuBackend::kSharedMemory, CpuBackend::kAuto}) {
    std::vector<JoinRequest> requests = requests_of({2, backend});
    for (JoinRequest& request : requests) request.machine = std::to_string(request.rank);
    const bool refused = backend == CpuBackend::kSharedMemory;
    for (const std::string& error : join_each(requests)) {
      EXPECT_EQ(error, refused ? "'accelerator.cpu_backend' is 'shared_memory', but the ranks of a "
                                 "group are on several machines"
                               : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, CollectivesTest,
                         testing::Values(Ranks{1, CpuBackend::kSharedMemory},
                                         Ranks{2, CpuBackend::kSharedMemory},
                                         Ranks{3, CpuBackend::kSharedMemory},
                                         Ranks{4, CpuBackend::kSharedMemory},
                                         Ranks{1, CpuBackend::kGloo}, Ranks{2, CpuBackend::kGloo},
                                         Ranks{3, CpuBackend::kGloo}, Ranks{4, CpuBackend::kGloo}));

}  // namespace
}  // namespace accel::collectives_test
