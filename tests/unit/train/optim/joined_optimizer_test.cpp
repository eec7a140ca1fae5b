#include "train/optim/joined_optimizer.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/optim/golden.h"
#include "tests/unit/train/optim/idle_optimizer.h"

namespace accel::joined_optimizer_test {
namespace {

std::vector<Parameter> named(const std::string& prefix) {
  std::vector<Parameter> out = golden_parameters();
  for (Parameter& item : out) item.name = prefix + item.name;
  return out;
}

struct Pair {
  std::vector<Parameter> first = named("a/"), second = named("b/");
  JoinedOptimizer joined{make()};

  std::vector<std::unique_ptr<Optimizer>> make() const {
    std::vector<std::unique_ptr<Optimizer>> out;
    out.push_back(build<Optimizer>("{type: adam, lr: 0.1}", {first}));
    out.push_back(build<Optimizer>("{type: sgd, lr: 0.5, momentum: 0.9}", {second}));
    return out;
  }
  void take_gradients() const {
    for (const auto* list : {&first, &second}) {
      for (const Parameter& item : *list) {
        item.local.mutable_grad() = golden_fill(item.local.sizes().vec(), 7);
      }
    }
  }
};

TEST(JoinedOptimizerTest, GroupsAndParametersComeOneAfterAnother) {
  Pair pair;
  EXPECT_EQ(pair.joined.base_lrs(), (std::vector<double>{0.1, 0.5}));
  EXPECT_EQ(pair.joined.state().groups.size(), 2U);
  const std::vector<Parameter> all = pair.joined.parameters();
  ASSERT_EQ(all.size(), pair.first.size() + pair.second.size());
  EXPECT_EQ(all.front().name, pair.first.front().name);
  EXPECT_EQ(all.back().name, pair.second.back().name);
}

TEST(JoinedOptimizerTest, EachGetsItsOwnRates) {
  Pair pair;
  pair.joined.set_lrs(std::vector<double>{0, 0.5});
  pair.take_gradients();
  const std::vector<Parameter> before = named("a/");
  pair.joined.step();
  EXPECT_EQ(values_of(pair.first[0].local), values_of(before[0].local));
  EXPECT_NE(values_of(pair.second[0].local), values_of(before[0].local));
  pair.joined.zero_grad();
  EXPECT_FALSE(pair.first[0].local.grad().defined());
  EXPECT_FALSE(pair.second[0].local.grad().defined());
}

TEST(JoinedOptimizerTest, AStateOfBothIsSharedOut) {
  Pair pair, other;
  pair.take_gradients();
  pair.joined.step();
  const int64_t to_come = other.joined.pending_state_bytes();
  other.joined.load(pair.joined.state());
  EXPECT_GE(to_come, other.joined.pending_state_bytes());
  const OptimizerState a = pair.joined.state(), b = other.joined.state();
  for (size_t g = 0; g < a.groups.size(); ++g) {
    ASSERT_EQ(a.groups[g].parameters.size(), b.groups[g].parameters.size());
    ASSERT_FALSE(a.groups[g].parameters[0].slots.empty());
    EXPECT_EQ(values_of(a.groups[g].parameters[0].slots.back().local),
              values_of(b.groups[g].parameters[0].slots.back().local));
  }
}

/// Of a plugin whose author forgot the state.
class Stateless final : public IdleOptimizer {
 public:
  OptimizerState state() const override { return {}; }
};

TEST(JoinedOptimizerTest, AStateWithoutAGroupForEachRateIsRefused) {
  Pair pair;
  pair.joined.replace(1, std::make_unique<Stateless>());
  try {
    pair.joined.state();
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "an optimizer's state() has 0 groups and its base_lrs() 1");
  }
}

TEST(JoinedOptimizerTest, AnotherNumberOfGroupsIsRefused) {
  Pair pair;
  OptimizerState state = pair.joined.state();
  state.groups.pop_back();
  EXPECT_THROW(pair.joined.load(state), CheckpointError);
}

}  // namespace
}  // namespace accel::joined_optimizer_test
