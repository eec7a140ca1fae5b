// Checkpoints in the layout of a Python module: transposed, stacked and reordered tensors.
#include "checkpoint/stored_layout.h"

#include <gtest/gtest.h>

#include "checkpoint/accelerate_folder.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "tests/unit/checkpoint/memory_files.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel::stored_layout_test {
namespace {

OptimizerState::ParameterState adam(const std::string& name, const Shape& shape, float first) {
  return {name, {{"step", floats({}, 3)}, {"exp_avg", floats(shape, first)}}};
}

/// A projection that the module has transposed, two experts of two matrices, and two norms.
TrainState own_state() {
  TrainState state = small_state(7);
  state.model = {{"proj", floats({2, 3}, 1)},    {"e.0.gate", floats({2, 3}, 10)},
                 {"e.0.up", floats({2, 3}, 20)}, {"e.1.gate", floats({2, 3}, 30)},
                 {"e.1.up", floats({2, 3}, 40)}, {"norm", floats({3}, 50)},
                 {"table", floats({4, 3}, 60)}};
  OptimizerState::Group group = {{{"lr", 0.1}}, {}};
  for (const Parameter& item : state.model) {
    group.parameters.push_back(adam(item.name, item.local.sizes().vec(), 100));
  }
  state.optimizer.groups = {group};
  state.base_lrs = {0.1};
  state.lrs = {0.1};
  state.sections.clear();
  return state;
}

StoredLayout module_layout() {
  StoredLayout out;
  for (const Parameter& item : own_state().model) out.names.push_back(item.name);
  out.tensors = {{.name = "table", .shape = {4, 3}, .parts = {{"table"}}},
                 {.name = "c_proj", .shape = {3, 2}, .parts = {{"proj"}}, .transposed = true},
                 {.name = "experts",
                  .shape = {2, 4, 3},
                  .parts = {{"e.0.gate", "e.0.up"}, {"e.1.gate", "e.1.up"}},
                  .stacked = true},
                 {.name = "norm", .shape = {3}, .parts = {{"norm"}}}};
  return out;
}

std::vector<std::string> names_in(const TrainState& state) {
  std::vector<std::string> out;
  for (const Parameter& item : state.model) out.push_back(item.name);
  return out;
}

TrainState stored_state() {
  TrainState state = own_state();
  state.layout = std::make_shared<StoredLayout>(module_layout());
  to_stored(*state.layout, state);
  return state;
}

TEST(StoredLayoutTest, TensorsAreTransposedStackedAndReordered) {
  const TrainState state = stored_state();
  EXPECT_EQ(names_in(state), (std::vector<std::string>{"table", "c_proj", "experts", "norm"}));
  EXPECT_TRUE(state.model[1].local.equal(floats({2, 3}, 1).t()));
  const at::Tensor& experts = state.model[2].local;
  EXPECT_TRUE(experts.select(0, 1).narrow(0, 0, 2).equal(floats({2, 3}, 30)));
  EXPECT_TRUE(experts.select(0, 0).narrow(0, 2, 2).equal(floats({2, 3}, 20)));
  const auto& parameters = state.optimizer.groups[0].parameters;
  ASSERT_EQ(parameters.size(), 4U);
  EXPECT_EQ(parameters[2].name, "experts");
  EXPECT_EQ(parameters[1].slots[1].local.sizes(), at::IntArrayRef({3, 2}));
  EXPECT_EQ(parameters[2].slots[1].local.sizes(), at::IntArrayRef({2, 4, 3}));
}

TEST(StoredLayoutTest, ACheckpointIsReadInTheModelsOwnLayout) {
  MemoryFiles files;
  files.make_dirs("/c");
  write_checkpoint(files, "/c", stored_state());
  const AccelerateFolder content = read_accelerate_folder(files, "/c");
  ASSERT_EQ(content.model.size(), 4U);
  const TrainState back = read_checkpoint(files, "/c");
  EXPECT_EQ(text_of(back), text_of(own_state()));
}

TEST(StoredLayoutTest, APythonFolderIsReadByItsIds) {
  MemoryFiles files;
  files.make_dirs("/c");
  write_checkpoint(files, "/c", stored_state());
  files.remove_tree("/c/accel_run.json");
  LoadOptions options;
  options.parameters = names_in(own_state());
  options.group_sizes = {options.parameters.size()};
  options.layout = std::make_shared<StoredLayout>(module_layout());
  const TrainState back = read_accelerate_checkpoint(files, "/c", options);
  EXPECT_EQ(names_in(back), names_in(own_state()));
  const auto& found = back.optimizer.groups[0].parameters;
  const TrainState wanted = own_state();
  ASSERT_EQ(found.size(), wanted.model.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].name, wanted.model[i].name);
    EXPECT_TRUE(back.model[i].local.equal(wanted.model[i].local)) << found[i].name;
    EXPECT_TRUE(
        found[i].slots[1].local.equal(wanted.optimizer.groups[0].parameters[i].slots[1].local))
        << found[i].name;
  }
}

TEST(StoredLayoutTest, AFolderInTheModelsOwnLayoutIsLeftAsItIs) {
  EXPECT_TRUE(is_stored_as(module_layout(), stored_state().model));
  EXPECT_FALSE(is_stored_as(module_layout(), own_state().model));
}

StoredLayout only_order() {
  StoredLayout out = {{"a", "b"},
                      {{.name = "b", .shape = {3, 2}, .parts = {{"b"}}},
                       {.name = "a", .shape = {4, 2}, .parts = {{"a"}}}}};
  return out;
}

/// RoBERTa of transformers 4 and 5 differ in the order alone.
TEST(StoredLayoutTest, MomentsTellOrdersApart) {
  EXPECT_TRUE(only_reorders(only_order()));
  EXPECT_FALSE(only_reorders(module_layout()));
  EXPECT_FALSE(is_identity(only_order()));
  EXPECT_EQ(stored_groups(only_order(), {{"a", "b"}, {}}),
            (std::vector<std::vector<std::string>>{{"b", "a"}, {}}));
  OptimizerState state;
  state.groups = {{{}, {adam("b", {3, 2}, 0), adam("a", {4, 2}, 0)}}};
  EXPECT_TRUE(fits_moments(only_order(), state));
  state.groups[0].parameters[0].slots[1].local = floats({4, 2}, 0);
  EXPECT_FALSE(fits_moments(only_order(), state));
}

TEST(StoredLayoutTest, FactorsOfRowsBecomeThoseOfColumns) {
  TrainState state = own_state();
  state.optimizer.groups[0].parameters[0].slots = {{"row_var", floats({2, 1}, 0)},
                                                   {"col_var", floats({1, 3}, 0)}};
  to_stored(module_layout(), state);
  const auto& slots = state.optimizer.groups[0].parameters[1].slots;
  EXPECT_EQ(slots[0].name, "col_var");
  EXPECT_EQ(slots[0].local.sizes(), at::IntArrayRef({1, 2}));
  from_stored(module_layout(), state);
  EXPECT_EQ(state.optimizer.groups[0].parameters[0].slots[0].name, "row_var");
}

/// Those of Adafactor and of quantized moments.
TEST(StoredLayoutTest, StateOfOtherShapesIsStackedToo) {
  TrainState state = own_state();
  float first = 0;
  for (OptimizerState::ParameterState& item : state.optimizer.groups[0].parameters) {
    if (!item.name.starts_with("e")) continue;
    item.slots = {{"row_var", floats({2, 1}, first)},
                  {"col_var", floats({1, 3}, first + 50)},
                  {"absmax1", floats({2}, first + 100)}};
    first += 5;
  }
  ASSERT_GT(first, 0);
  const std::string own = text_of(state);
  to_stored(module_layout(), state);
  const auto& slots = state.optimizer.groups[0].parameters[2].slots;
  EXPECT_EQ(slots[0].local.sizes(), at::IntArrayRef({2, 4, 1}));
  EXPECT_EQ(slots[1].local.sizes(), at::IntArrayRef({2, 2, 3}));
  EXPECT_EQ(slots[2].local.sizes(), at::IntArrayRef({2, 4}));
  from_stored(module_layout(), state);
  EXPECT_EQ(text_of(state), own);
}

TEST(StoredLayoutTest, PartsOfAStackInDifferentGroupsKeepTheirNames) {
  TrainState state = own_state();
  auto& first = state.optimizer.groups[0];
  OptimizerState::Group second = {{{"lr", 0.1}}, {first.parameters[1]}};
  first.parameters.erase(first.parameters.begin() + 1);
  state.optimizer.groups.push_back(second);
  to_stored(module_layout(), state);
  EXPECT_EQ(state.optimizer.groups[1].parameters[0].name, "e.0.gate");
  from_stored(module_layout(), state);
  EXPECT_EQ(state.optimizer.groups[0].parameters[1].name, "e.0.up");
}

class WrappedNamesTest : public testing::TestWithParam<std::string> {};

TEST_P(WrappedNamesTest, PrefixesOfWrappersAreRemoved) {
  MemoryFiles files;
  files.make_dirs("/c");
  TrainState state = own_state();
  for (Parameter& item : state.model) item.name = GetParam() + item.name;
  write_checkpoint(files, "/c", state);
  files.remove_tree("/c/accel_run.json");
  LoadOptions options;
  options.parameters = names_in(own_state());
  options.group_sizes = {options.parameters.size()};
  const TrainState back = read_accelerate_checkpoint(files, "/c", options);
  std::set<std::string> found, wanted;
  for (const std::string& name : names_in(back)) found.insert(name);
  for (const std::string& name : names_in(own_state())) wanted.insert(name);
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(back.accelerate->wrapper, GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, WrappedNamesTest,
                         testing::Values("", "module.", "_orig_mod.", "module._orig_mod."));

}  // namespace
}  // namespace accel::stored_layout_test
