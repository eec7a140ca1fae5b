#include "core/recipe/registry.h"

#include <gtest/gtest.h>

#include "tests/unit/core/recipe_text.h"
#include "tests/unit/core/test_components.h"

namespace accel::registry_test {
namespace {

TEST(RegistryTest, AComponentEntersItselfByOneLine) {
  const Register<TestData> entry;
  Registry registry;
  Registration::enter_all(registry);
  EXPECT_EQ(registry.of<Dataset>().names(), std::vector<std::string>{"counting"});
  EXPECT_EQ(registry.of<Dataset>().items().at("counting").summary, "Counts.");
  EXPECT_EQ(registry.of<Dataset>().items().at("counting").fields.size(), 3u);
  EXPECT_EQ(registry.all().size(), 10u);
}

TEST(RegistryTest, TwoComponentsOfOneNameAreABug) {
  Registry registry = test_registry();
  try {
    registry.of<Dataset>().add({"counting", "", {}}, {});
    FAIL() << "accepted";
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "two datasets are named 'counting'");
  }
}

TEST(RegistryTest, ABareNameIsShortForATypeWithoutOptions) {
  Registry registry;
  registry.of<Dataset>().add({"plain", "", {}}, [](const Node& node, Reading&) {
    const auto make = [](const DatasetContext&) {
      return std::make_unique<TestData>(TestDataOptions{});
    };
    return Ref<Dataset>{"plain", detail::with_type("plain", detail::without_type(node), node),
                        make};
  });
  Diagnostics problems;
  Reading reading{problems, registry};
  const Ref<Dataset> bare = registry.of<Dataset>().prepare(scalar_node("plain"), reading);
  const Ref<Dataset> quoted = registry.of<Dataset>().prepare(scalar_node("plain", true), reading);
  const Ref<Dataset> section =
      registry.of<Dataset>().prepare(parse_recipe("r.yaml", "{type: plain}"), reading);
  EXPECT_TRUE(bare && quoted && section && problems.empty());
  EXPECT_EQ(outline(bare.resolved), "{type: plain}");
  EXPECT_EQ(outline(section.resolved), outline(bare.resolved));
  EXPECT_EQ(bare.type, "plain");
}

TEST(RegistryTest, AnEmptyComponentIsNoComponent) {
  const Registry registry = test_registry();
  Diagnostics problems;
  Reading reading{problems, registry};
  EXPECT_FALSE(registry.of<Dataset>().prepare({}, reading));
  EXPECT_EQ(problems.list()[0].message, "'dataset' wants the name of a dataset, not nothing");
}

}  // namespace
}  // namespace accel::registry_test
