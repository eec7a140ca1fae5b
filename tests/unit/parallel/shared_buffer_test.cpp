// All-reduces in memory that the ranks share.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <filesystem>

#include "core/base/environment.h"
#include "core/base/text.h"
#include "kernels/cpu_operators.h"
#include "kernels/memory/gradient_memory.h"
#include "parallel/gradients.h"
#include "parallel/strategy.h"
#include "tests/unit/parallel/ranks.h"
#include "tests/unit/parallel/run_passes.h"

namespace accel::shared_buffer_test {
namespace {

std::vector<std::string> join_by(CpuBackend backend, int64_t world,
                                 const std::function<void(Communicator&)>& body) {
  std::vector<JoinRequest> requests = requests_of(world);
  for (JoinRequest& request : requests) request.cpu_backend = backend;
  return join_each(requests, body);
}

void on_ranks_by(CpuBackend backend, int64_t world,
                 const std::function<void(Communicator&)>& body) {
  for (const std::string& error : join_by(backend, world, body)) EXPECT_EQ(error, "");
}

/// Numbers whose sum in another order has other bits.
at::Tensor numbers_of(const Communicator& group, int64_t size, at::ScalarType type) {
  return at::arange(size, at::kFloat).mul(0.37 + static_cast<double>(group.rank())).sin().to(type);
}

TEST(SharedBufferTest, SumsInPlaceHaveTheBitsOfCopies) {
  constexpr int64_t kSize = 301'003, kBefore = 64, kAfter = 128;
  for (const int64_t world : {2, 3, 4}) {
    on_ranks_by(CpuBackend::kSharedMemory, world, [&](Communicator& group) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
        const auto bytes = kSize * static_cast<int64_t>(elementSize(type));
        const at::Tensor memory = group.shared_zeros(kBefore + bytes + kAfter, "test");
        EXPECT_TRUE(at::equal(memory, at::zeros_like(memory)));
        memory.fill_(0x7b);
        const at::Tensor shared = memory.narrow(0, kBefore, bytes).view(type);
        for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
          const at::Tensor copied = numbers_of(group, kSize, type);
          shared.copy_(copied);
          group.all_reduce(copied, op, "copies");
          group.all_reduce(shared, op, "in place");
          EXPECT_TRUE(at::equal(shared, copied)) << world << " ranks, " << type;
        }
        const at::Tensor around =
            at::cat({memory.narrow(0, 0, kBefore), memory.narrow(0, kBefore + bytes, kAfter)});
        EXPECT_TRUE(around.eq(0x7b).all().item<bool>());
      }
    });
  }
}

TEST(SharedBufferTest, SeveralAreInProgressAtOnce) {
  on_ranks_by(CpuBackend::kSharedMemory, 3, [](Communicator& group) {
    constexpr int64_t kSize = 100'000;
    const at::Tensor memory = group.shared_zeros(2 * kSize * 4, "test").view(at::kFloat);
    for (int step = 1; step <= 20; ++step) {
      memory.fill_(static_cast<double>(step + group.rank()));
      const auto one = group.start_all_reduce(memory.narrow(0, 0, kSize), ReduceOp::kSum, "one");
      const auto two =
          group.start_all_reduce(memory.narrow(0, kSize, kSize), ReduceOp::kSum, "two");
      two->wait();
      one->wait();
      EXPECT_TRUE(memory.eq(3 * step + 3).all().item<bool>());
    }
  });
}

size_t shared_files() {
  size_t count = 0;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    count += std::filesystem::read_symlink(file, ignored).string().starts_with("/memfd:accel-run");
  }
  return count;
}

TEST(SharedBufferTest, NoFileStaysOpen) {
  on_ranks_by(CpuBackend::kSharedMemory, 2, [](Communicator& group) {
    const size_t before = shared_files();
    group.barrier("counted");
    std::vector<at::Tensor> kept;
    for (int i = 0; i < 5; ++i) kept.push_back(group.shared_zeros(1 << 20, "test"));
    group.barrier("made");
    EXPECT_EQ(shared_files(), before);
  });
}

TEST(SharedBufferTest, RanksOfGlooHaveMemoryOfTheirOwn) {
  on_ranks_by(CpuBackend::kGloo, 2, [](Communicator& group) {
    const at::Tensor memory = group.shared_zeros(400'000, "test").view(at::kFloat);
    memory.fill_(1 + static_cast<double>(group.rank()));
    group.barrier("filled");
    EXPECT_EQ(memory[0].item<float>(), 1 + static_cast<float>(group.rank()));
    group.barrier("read");
    group.all_reduce(memory, ReduceOp::kSum, "test");
    EXPECT_TRUE(memory.eq(3).all().item<bool>());
  });
}

TEST(SharedBufferTest, RanksThatDifferAreErrors) {
  const auto sizes = join_by(CpuBackend::kSharedMemory, 2, [](Communicator& group) {
    group.shared_zeros(8 + group.rank(), "gradients");
  });
  EXPECT_EQ(sizes[0],
            "rank 0 failed in collective 1 'gradients': rank 1 shares 9 bytes, and not 8");
  const auto places = join_by(CpuBackend::kSharedMemory, 2, [](Communicator& group) {
    const at::Tensor memory = group.shared_zeros(1 << 20, "memory");
    group.all_reduce(memory.narrow(0, 64 * group.rank(), 1 << 19), ReduceOp::kMax, "gradients");
  });
  EXPECT_EQ(places[0],
            "rank 0 failed in collective 2 'gradients': rank 1 reduces byte 64 of shared memory, "
            "and not byte 0");
}

TEST(SharedBufferTest, ALostRankIsNamed) {
  const auto errors = join_by(CpuBackend::kSharedMemory, 3, [](Communicator& group) {
    const at::Tensor memory = group.shared_zeros(1 << 20, "memory");
    if (group.rank() == 2) throw std::runtime_error("left");
    group.all_reduce(memory, ReduceOp::kMax, "gradients");
  });
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(errors[rank], text("rank {} lost rank 2 on host '{}' in collective 2 'gradients'",
                                 rank, host_name()));
  }
}

/// Rank 0's gradients after each of three updates by DDP, with buckets of 1 MiB.
std::vector<at::Tensor> gradients_by(CpuBackend backend, bool deferred) {
  std::vector<at::Tensor> made;
  on_ranks_by(backend, 3, [&](Communicator& group) {
    std::vector<Parameter> parameters;
    for (const int64_t size : {400'000, 3, 90'000, 70'000}) {
      parameters.push_back({text("p{}", size), at::arange(size, at::kFloat).div(7.0)});
      parameters.back().local.requires_grad_(true);
    }
    const auto ddp = make_ddp({parameters, {}, &group}, {.bucket_bytes = 1 << 20});
    for (int update = 0; update < 3; ++update) {
      StepLayout layout{.step = 1, .num_micro_batches = 3, .own = {group.rank()}};
      layout.overlap = !deferred;
      run_passes(*ddp, layout, [&](size_t) {
        at::Tensor loss = at::zeros({});
        for (const Parameter& item : parameters) {
          const auto factor = 0.1 + update + 1.7 * static_cast<double>(group.rank());
          loss = loss.add(item.local.mul(factor).sin().sum());
        }
        loss.backward();
      });
      for (const Parameter& item : parameters) {
        if (group.rank() == 0) made.push_back(item.local.grad().clone());
        item.local.mutable_grad().reset();
      }
    }
  });
  return made;
}

TEST(SharedBufferTest, GradientsOfDdpHaveTheBitsOfGloo) {
  const std::vector<at::Tensor> wanted = gradients_by(CpuBackend::kGloo, false);
  for (const bool deferred : {false, true}) {
    const std::vector<at::Tensor> found = gradients_by(CpuBackend::kSharedMemory, deferred);
    ASSERT_EQ(found.size(), 12);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(at::equal(found[i], wanted[i])) << i;
  }
}

TEST(SharedBufferTest, RanksComputeNormsOfDdpTogether) {
  on_ranks_by(CpuBackend::kSharedMemory, 3, [](Communicator& group) {
    std::vector<Parameter> parameters;
    for (const int64_t rows : {700, 7, 2, 1}) {
      parameters.push_back({text("p{}", rows), at::zeros({rows, 2000})});
      at::Tensor& gradient = parameters.back().local.mutable_grad();
      gradient = at::arange(rows * 2000, at::kFloat).sin().view({rows, 2000});
    }
    parameters.push_back({"scalar", at::zeros({})});
    parameters.back().local.mutable_grad() = at::full({}, 0.1);
    parameters.push_back({"absent", at::zeros({5})});
    const auto ddp = make_ddp({parameters, {}, &group}, {});
    const at::Tensor wanted = gradient_norm_by_rows(parameters, 3);
    // Rows that another rank reads.
    const auto others = (group.rank() + 1) % 3;
    rows_by_rank(parameters[0].local.grad(), 3)[static_cast<size_t>(others)].fill_(NAN);
    EXPECT_TRUE(at::equal(ddp->gradient_norm(parameters), wanted));
    // An exchange would take longer.
    const std::span<const Parameter> few = std::span(parameters).subspan(1);
    EXPECT_TRUE(at::equal(ddp->gradient_norm(few), gradient_norm_by_rows(few, 3)));
  });
}

/// A convolution whose weights' gradients kernels/convolution.cpp computes on all processors.
at::Tensor convolved(const at::Tensor& weight, double factor) {
  const at::Tensor x = at::arange(1 * 64 * 2 * 2, at::kFloat).mul(factor).sin().view({1, 64, 2, 2});
  return at::conv2d(x, weight, {}, 1, 1).square().sum();
}

/// Its gradients of three passes, of which the second uses the weights twice.
at::Tensor gradient_of_passes(const at::Tensor& weight, int64_t first, int64_t count) {
  at::Tensor sum = at::zeros_like(weight);
  for (int64_t i = first; i < first + count; ++i) {
    const double factor = 0.37 * static_cast<double>(i + 1);
    at::Tensor loss = convolved(weight, factor);
    if (i % 3 == 1) loss = loss + convolved(weight, factor + 0.1);
    sum += torch::autograd::grad({loss}, {weight})[0];
  }
  return sum;
}

TEST(SharedBufferTest, ConvolutionsComputeGradientsInBucketsOfDdp) {
  use_kernels(Kernels::kFused);
  on_ranks_by(CpuBackend::kSharedMemory, 2, [](Communicator& group) {
    const at::Tensor weight = at::arange(256 * 64 * 9, at::kFloat).sin().view({256, 64, 3, 3});
    const std::vector<Parameter> parameters = {{"weight", weight.requires_grad_()}};
    const auto ddp = make_ddp({parameters, {}, &group}, {});
    for (int64_t update = 0; update < 3; ++update) {
      const int64_t first = 3 * (2 * update + group.rank());
      const at::Tensor own = gradient_of_passes(weight, first, 3);
      const StepLayout layout{.step = 1, .num_micro_batches = 6, .own = {0, 1, 2}};
      const void* after_first = nullptr;
      run_passes(*ddp, layout, [&](size_t pass) {
        const double factor = 0.37 * static_cast<double>(first + static_cast<int64_t>(pass) + 1);
        at::Tensor loss = convolved(weight, factor);
        if (pass == 1) loss = loss + convolved(weight, factor + 0.1);
        loss.backward();
        if (pass == 0) after_first = weight.grad().const_data_ptr();
      });
      EXPECT_EQ(weight.grad().const_data_ptr(), after_first);
      group.all_reduce(own, ReduceOp::kSum, "wanted");
      EXPECT_TRUE(at::equal(weight.grad(), own)) << update;
      weight.mutable_grad().reset();
    }
  });
  use_kernels(Kernels::kReference);
}

TEST(SharedBufferTest, GradientsOfChannelsLastWeightsAreCopied) {
  use_kernels(Kernels::kFused);
  on_ranks_by(CpuBackend::kSharedMemory, 2, [](Communicator& group) {
    const at::Tensor numbers = at::arange(256 * 64 * 9, at::kFloat).sin();
    const at::Tensor weight = numbers.view({256, 3, 3, 64}).permute({0, 3, 1, 2}).requires_grad_();
    // A contiguous view of the parameter, whose gradient has the parameter's layout again.
    const auto loss = [&] {
      return convolved(weight.permute({0, 2, 3, 1}).reshape({256, 64, 3, 3}), 0.3 + group.rank());
    };
    const at::Tensor wanted = torch::autograd::grad({loss()}, {weight})[0].contiguous();
    const std::vector<Parameter> parameters = {{"weight", weight}};
    const auto ddp = make_ddp({parameters, {}, &group}, {});
    const StepLayout layout{.step = 1, .num_micro_batches = 2, .own = {group.rank()}};
    run_passes(*ddp, layout, [&](size_t) { loss().backward(); });
    group.all_reduce(wanted, ReduceOp::kSum, "wanted");
    EXPECT_TRUE(at::equal(weight.grad(), wanted));
  });
  use_kernels(Kernels::kReference);
}

TEST(SharedBufferTest, BucketsOfDdpAreOfferedDuringAnUpdateOnly) {
  on_ranks_by(CpuBackend::kSharedMemory, 2, [](Communicator& group) {
    const at::Tensor weight = at::zeros({10, 10}).requires_grad_();
    const std::vector<Parameter> parameters = {{"weight", weight}};
    const auto ddp = make_ddp({parameters, {}, &group}, {});
    const StepLayout layout{.step = 1, .num_micro_batches = 2, .own = {group.rank()}};
    run_passes(*ddp, layout, [&](size_t) { weight.sin().sum().backward(); });
    EXPECT_FALSE(gradient_memory(weight).is_alias_of(weight.grad()));
  });
}

}  // namespace
}  // namespace accel::shared_buffer_test
