#include "train/optim/parameter_groups.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/unit/build_component.h"

namespace accel::parameter_groups_test {
namespace {

OptimizerContext model() {
  OptimizerContext context;
  for (const char* name : {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias", "norm.weight"}) {
    context.parameters.push_back({name, at::zeros({2, 2})});
  }
  return context;
}

/// The names of each group, as "a b | c".
std::string groups_of(const std::string& yaml) {
  const auto optimizer = build<Optimizer>(yaml, model());
  std::string out;
  for (const OptimizerState::Group& group : optimizer->state().groups) {
    if (!out.empty()) out += " |";
    for (const OptimizerState::ParameterState& p : group.parameters) {
      out += (out.empty() ? "" : " ") + p.name;
    }
  }
  return out;
}

TEST(ParameterGroupsTest, WithoutGroupsAllParametersAreOneGroupInTheModelsOrder) {
  EXPECT_EQ(groups_of("type: sgd"), "fc1.weight fc1.bias fc2.weight fc2.bias norm.weight");
}

TEST(ParameterGroupsTest, TheRestFollowsTheGroupsOfTheRecipe) {
  EXPECT_EQ(groups_of("type: sgd\ngroups: [{match: '*.bias', weight_decay: 0}]"),
            "fc1.bias fc2.bias | fc1.weight fc2.weight norm.weight");
}

TEST(ParameterGroupsTest, TheFirstMatchWins) {
  EXPECT_EQ(groups_of("type: sgd\n"
                      "groups:\n"
                      "  - match: [norm.*, 'fc?.bias']\n"
                      "  - match: fc1.*\n"),
            "norm.weight fc1.bias fc2.bias | fc1.weight | fc2.weight");
}

TEST(ParameterGroupsTest, NoEmptyGroupIsMadeForTheRest) {
  EXPECT_EQ(groups_of("type: sgd\ngroups: [{match: '*', lr: 1}]"),
            "fc1.weight fc1.bias fc2.weight fc2.bias norm.weight");
}

TEST(ParameterGroupsTest, AGroupKeepsWhatItDoesNotChange) {
  const auto optimizer = build<Optimizer>(
      "{type: adamw, lr: 0.5, groups: [{match: '*.bias', lr: 0.25}, {match: 'norm*', eps: 1}]}",
      model());
  EXPECT_EQ(optimizer->base_lrs(), (std::vector<double>{0.25, 0.5, 0.5}));
}

struct BadGroups {
  const char* yaml;
  const char* error;
};

TEST(ParameterGroupsTest, MistakesAreNamedWhereTheyAre) {
  const BadGroups cases[] = {
      {"type: sgd\ngroups: [{match: '*.bais'}]\n",
       "recipe.yaml:2:18: error: '*.bais' matches no parameter\n"
       "    groups: [{match: '*.bais'}]\n"
       "                     ^\n"
       "  hint: did you mean '*.bias'?\n"},
      {"type: sgd\ngroups: [{match: fc1.wieght}]\n",
       "recipe.yaml:2:18: error: 'fc1.wieght' matches no parameter\n"
       "    groups: [{match: fc1.wieght}]\n"
       "                     ^\n"
       "  hint: did you mean 'fc1.weight'?\n"},
      {"type: sgd\ngroups: [{match: encoder.*}]\n",
       "recipe.yaml:2:18: error: 'encoder.*' matches no parameter\n"
       "    groups: [{match: encoder.*}]\n"
       "                     ^\n"
       "  hint: the parameters are 'fc1.weight', 'fc1.bias', 'fc2.weight', 'fc2.bias', ...\n"},
      {"type: sgd\ngroups: [{match: '*.bias'}, {match: fc1.bias}]\n",
       "recipe.yaml:2:29: error: every parameter of this group is in an earlier group\n"
       "    groups: [{match: '*.bias'}, {match: fc1.bias}]\n"
       "                                ^\n"
       "  hint: put the narrower pattern first\n"},
      {"type: sgd\ngroups: [{lr: 1}]\n",
       "recipe.yaml:2:10: error: 'match' is missing\n"
       "    groups: [{lr: 1}]\n"
       "             ^\n"
       "  hint: add 'match': patterns of parameter names, such as '*.bias'\n"},
      {"type: sgd\ngroups: [{match: []}]\n",
       "recipe.yaml:2:18: error: 'match' holds no pattern\n"
       "    groups: [{match: []}]\n"
       "                     ^\n"},
      {"type: sgd\ngroups: [{match: '*', lr: -1}]\n",
       "recipe.yaml:2:27: error: 'lr' must be at least 0, not -1\n"
       "    groups: [{match: '*', lr: -1}]\n"
       "                              ^\n"},
      {"type: sgd\ngroups: [{match: '*', betas: 1}]\n",
       "recipe.yaml:2:23: error: unknown option 'betas'\n"
       "    groups: [{match: '*', betas: 1}]\n"
       "                          ^\n"},
      {"type: sgd\ngroups: all\n",
       "recipe.yaml:2:9: error: 'groups' wants a list of parameter groups, not 'all'\n"
       "    groups: all\n"
       "            ^\n"},
      {"type: sgd\nnesterov: true\n",
       "recipe.yaml:2:11: error: 'nesterov' needs a momentum above 0 and a dampening of 0\n"
       "    nesterov: true\n"
       "              ^\n"},
      {"type: sgd\nmomentum: 0.9\nnesterov: true\ngroups: [{match: '*', momentum: 0}]\n",
       "recipe.yaml:4:10: error: 'nesterov' needs a momentum above 0 and a dampening of 0\n"
       "    groups: [{match: '*', momentum: 0}]\n"
       "             ^\n"},
  };
  for (const BadGroups& bad : cases) {
    EXPECT_EQ(complaint<Optimizer>(bad.yaml, model()), bad.error) << bad.yaml;
  }
}

TEST(ParameterGroupsTest, ResolvedRecipeKeepsTheGroupsAsWritten) {
  Registry registry;
  Registration::enter_all(registry);
  Diagnostics problems;
  Reading reading{problems, registry};
  const Node node = parse_recipe("recipe.yaml", "{type: sgd, groups: [{match: '*', lr: 0.5}]}");
  const Ref<Optimizer> ref = registry.of<Optimizer>().prepare(node, reading);
  problems.check();
  const Node& groups = ref.resolved.find("groups")->node;
  EXPECT_EQ(detail::inline_text(groups), "[{match: '*', lr: 0.5}]");
}

}  // namespace
}  // namespace accel::parameter_groups_test
