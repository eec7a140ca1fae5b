#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "core/recipe/registry.h"

namespace accel::static_plugin_test {
namespace {

TEST(StaticPluginTest, ALinkedPluginIsThereWithoutBeingLoaded) {
  Registry registry;
  Registration::enter_all(registry);
  EXPECT_EQ(registry.of<Dataset>().names(), std::vector<std::string>{"example/spirals"});

  Diagnostics problems;
  Reading reading{problems, registry};
  const auto ref = registry.of<Dataset>().prepare(
      parse_recipe("r.yaml", "{type: example/spirals, length: 9, arms: 3, noise: 0}"), reading);
  ASSERT_TRUE(ref);
  const auto data = ref.make({7, true}), again = ref.make({7, true}), eval = ref.make({7, false});
  const auto at = [](const Dataset& set, int64_t i) { return set.sample(i).input.as<float>()[0]; };
  EXPECT_EQ(at(*data, 4), at(*again, 4));
  EXPECT_NE(at(*data, 4), at(*eval, 4));
  EXPECT_NE(data->fingerprint(), eval->fingerprint());
}

}  // namespace
}  // namespace accel::static_plugin_test
