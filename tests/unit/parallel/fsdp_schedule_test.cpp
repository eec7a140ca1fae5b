// When sharded blocks are gathered, and how much memory that takes.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <c10/core/Allocator.h>
#include <c10/core/GradMode.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "parallel/fsdp.h"
#include "tests/unit/parallel/ranks.h"
#include "tests/unit/parallel/run_passes.h"

namespace accel::fsdp_schedule_test {
namespace {

constexpr int64_t kWidth = 64;
constexpr int64_t kBlocks = 14;

/// "start 3", "compute 2", "wait 3" in their order; the number of a gather counts from 1.
using Events = std::vector<std::string>;

class LoggedWait final : public Pending {
 public:
  LoggedWait(std::unique_ptr<Pending> pending, Events& events, int64_t number)
      : pending_(std::move(pending)), events_(events), number_(number) {}
  void wait() override {
    events_.push_back("wait " + std::to_string(number_));
    pending_->wait();
  }

 private:
  std::unique_ptr<Pending> pending_;
  Events& events_;
  int64_t number_;
};

/// Another group, with a log of its all-gathers of parameters.
class LoggedGroup final : public Communicator {
 public:
  LoggedGroup(Communicator& group, Events& events)
      : Communicator(group.rank(), group.world()), group_(group), events_(events) {}

  std::unique_ptr<Pending> start_all_gather(at::Tensor out, const at::Tensor& in,
                                            const char* purpose) override {
    auto pending = group_.start_all_gather(out, in, purpose);
    if (std::string(purpose) != "parameters") return pending;
    events_.push_back("start " + std::to_string(++gathers_));
    return std::make_unique<LoggedWait>(std::move(pending), events_, gathers_);
  }
  std::unique_ptr<Pending> start_messages(const std::vector<Message>& messages,
                                          const char* purpose) override {
    return group_.start_messages(messages, purpose);
  }
  std::unique_ptr<Pending> start_all_reduce(at::Tensor tensor, ReduceOp op,
                                            const char* purpose) override {
    return group_.start_all_reduce(tensor, op, purpose);
  }
  std::unique_ptr<Pending> start_reduce_scatter(at::Tensor out, const at::Tensor& in, ReduceOp op,
                                                const char* purpose) override {
    return group_.start_reduce_scatter(out, in, op, purpose);
  }
  std::unique_ptr<Pending> start_all_to_all(at::Tensor out, const at::Tensor& in,
                                            const std::vector<int64_t>& out_rows,
                                            const std::vector<int64_t>& in_rows,
                                            const char* purpose) override {
    return group_.start_all_to_all(out, in, out_rows, in_rows, purpose);
  }
  void broadcast(at::Tensor tensor, int64_t root, const char* purpose) override {
    group_.broadcast(tensor, root, purpose);
  }
  void barrier(const char* purpose) override { group_.barrier(purpose); }
  std::unique_ptr<Communicator> split(const Partition& partition) override {
    return group_.split(partition);
  }

 private:
  Communicator& group_;
  Events& events_;
  int64_t gathers_ = 0;
};

/// A linear layer and a sine.
class Layer final : public Block {
 public:
  explicit Layer(Events& events)
      : weight(at::full({kWidth, kWidth}, 0.01).requires_grad_(true)), events_(events) {}

  at::Tensor run(const at::Tensor& x) {
    hooks()->before_forward();
    events_.push_back("compute");
    const at::Tensor output = at::linear(x, weight).sin();
    if (output.requires_grad()) {
      output.register_hook([this](const at::Tensor&) { events_.push_back("compute"); });
    }
    hooks()->after_forward(output);
    return output;
  }

  at::Tensor weight;

 private:
  Events& events_;
};

struct Model {
  explicit Model(Events& events) {
    for (int64_t i = 0; i < kBlocks; ++i) layers.emplace_back(events);
  }
  at::Tensor loss() {
    at::Tensor x = at::arange(kWidth, at::kFloat).view({1, kWidth});
    for (Layer& layer : layers) x = layer.run(x);
    return x.sum();
  }
  FsdpContext context(Mesh mesh) {
    FsdpContext out{.mesh = std::move(mesh)};
    for (Layer& layer : layers) {
      out.blocks.push_back({&layer, {{std::to_string(out.blocks.size()), layer.weight}}});
    }
    return out;
  }
  std::deque<Layer> layers;
};

Mesh mesh_of(Communicator& group) {
  const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
  return make_mesh(world, {.shard = group.world()});
}

/// Whether a block computes between the start of a gather and the wait for it.
int64_t gathers_beside_computation(const Events& events) {
  int64_t count = 0;
  for (auto start = events.begin(); start != events.end(); ++start) {
    if (!start->starts_with("start ")) continue;
    const auto wait = std::find(start, events.end(), "wait " + start->substr(6));
    count += std::find(start, wait, "compute") != wait;
  }
  return count;
}

TEST(FsdpScheduleTest, GathersRunBesideTheBlockBefore) {
  on_ranks(2, [](Communicator& group) {
    Events events;
    Mesh mesh = mesh_of(group);
    mesh.shard = std::make_shared<LoggedGroup>(group, events);
    Model model(events);
    const auto strategy = make_fsdp(model.context(mesh), {});
    for (int64_t step = 1; step <= 2; ++step) {
      events.clear();  // the first step records the order of blocks
      run_passes(*strategy, {.step = step, .num_micro_batches = 2, .own = {group.rank()}},
                 [&](size_t) { model.loss().backward(); });
      strategy->updated(step);
    }
    const auto is_start = [](const std::string& event) { return event.starts_with("start "); };
    // The block that runs last is not gathered again; only the first gather has none before it.
    EXPECT_EQ(std::count_if(events.begin(), events.end(), is_start), 2 * kBlocks - 1);
    EXPECT_EQ(gathers_beside_computation(events), 2 * kBlocks - 2);
  });
}

/// The bytes of tensors that this thread has allocated.
class AllocatedBytes final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*pointer*/, int64_t bytes, size_t /*allocated*/,
                         size_t /*reserved*/, c10::Device /*device*/) override {
    now += bytes;
    peak = std::max(peak, now);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t now = 0, peak = 0;
};

class Done final : public Pending {
 public:
  void wait() override {}
};

/// A group that needs no memory in a gather, as on GPUs; Gloo copies the data of all ranks.
class GroupWithoutCopies final : public FakeGroup {
 public:
  using FakeGroup::FakeGroup;
  std::unique_ptr<Pending> start_all_gather(at::Tensor /*out*/, const at::Tensor& /*in*/,
                                            const char* /*purpose*/) override {
    return std::make_unique<Done>();
  }
};

/// The most bytes of parameters during a forward pass, by those of the whole model.
double peak_of_parameters(int64_t ranks) {
  const auto allocated = std::make_shared<AllocatedBytes>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, allocated);
  const c10::NoGradGuard no_grad;
  Events events;
  Model model(events);
  GroupWithoutCopies group(ranks);
  Mesh mesh = mesh_of(group);
  mesh.shard = std::make_shared<GroupWithoutCopies>(ranks);
  const auto strategy = make_fsdp(model.context(mesh), {});
  for (int64_t pass = 0; pass < 2; ++pass) {
    allocated->peak = allocated->now;
    strategy->unshard();
    model.loss();
    strategy->reshard();
  }
  return static_cast<double>(allocated->peak) / static_cast<double>(kBlocks * kWidth * kWidth * 4);
}

TEST(FsdpScheduleTest, TwoBlocksAreWholeAtMost) {
  const double of_two = peak_of_parameters(2), of_four = peak_of_parameters(4);
  EXPECT_LE(of_two, 0.66);
  EXPECT_GT(of_two, 1.0 / 2 + 1.0 / kBlocks);
  EXPECT_LE(of_four, 0.41);
  EXPECT_GT(of_four, 1.0 / 4 + 1.0 / kBlocks);
}

}  // namespace
}  // namespace accel::fsdp_schedule_test
