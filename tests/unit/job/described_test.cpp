#include "runner/job/described.h"

#include <gtest/gtest.h>

#include "core/dataset.h"
#include "core/json_schema.h"
#include "core/register.h"

namespace accel {

enum class Hue { kRed, kBlue };
template <>
struct EnumNames<Hue> {
  static constexpr std::pair<Hue, const char*> kValues[] = {{Hue::kRed, "red"},
                                                            {Hue::kBlue, "blue"}};
};

namespace {

struct InnerOptions {
  int64_t depth = 2;
  static Schema<InnerOptions> schema() {
    return Schema<InnerOptions>().field("depth", &InnerOptions::depth, "How deep.",
                                        between<int64_t>(1, 9));
  }
};

/// One option of every kind.
struct ManyOptions {
  std::string path;
  int64_t size = 10;
  double rate = 0.5;
  bool quick = false;
  FilePath file;
  Hue hue = Hue::kRed;
  std::string unit = "m";
  std::vector<int64_t> widths = {64, 32};
  std::optional<double> limit;
  Auto<int64_t> workers;
  Durations every = {{5, Duration::Unit::kSteps}};
  InnerOptions inner;
  Ref<Dataset> base;
};

class Many final : public Dataset {
 public:
  static constexpr auto kName = "acme/many";
  static constexpr auto kSummary = "Has one option of every kind.";

  static Schema<ManyOptions> schema() {
    return Schema<ManyOptions>()
        .field("path", &ManyOptions::path, "Where.")
        .required()
        .field("size", &ManyOptions::size, "How many.", at_least<int64_t>(1))
        .field("rate", &ManyOptions::rate, "How fast.", within(0.0, 1.0))
        .field("quick", &ManyOptions::quick, "Whether.")
        .field("file", &ManyOptions::file, "A file.")
        .field("hue", &ManyOptions::hue, "Which.")
        .field("unit", &ManyOptions::unit, "Of what.", one_of<std::string>({"m", "km"}))
        .field("widths", &ManyOptions::widths, "How wide.")
        .field("limit", &ManyOptions::limit, "At most.")
        .field("workers", &ManyOptions::workers, "Threads.")
        .field("every", &ManyOptions::every, "How often.")
        .field("inner", &ManyOptions::inner, "What is inside.")
        .field("base", &ManyOptions::base, "Another.");
  }

  explicit Many(const ManyOptions&) {}
  int64_t size() const override { return 1; }
  Sample sample(int64_t) const override { return {}; }
  DataShape shape() const override { return {}; }
  std::string fingerprint() const override { return {}; }
};

const Register<Many> many;

Registry loaded() {
  Registry registry;
  Registration::enter_all(registry);
  return registry;
}

/// What its description alone gives.
Registry described() {
  Registry registry;
  for (const DescribedComponent& component : describe_components(loaded())) {
    enter_described(component, registry);
  }
  return registry;
}

/// The resolved component, or every problem.
std::string read(const Registry& registry, const std::string& yaml) {
  Diagnostics problems;
  Reading reading{problems, registry};
  const auto ref = registry.of<Dataset>().prepare(parse_recipe("recipe.yaml", yaml), reading);
  std::string out = ref ? to_yaml(ref.resolved) : "";
  for (const Diagnostic& d : problems.list()) out += render(d);
  return out;
}

TEST(DescribedTest, RecipesAreReadAsIfTheCodeWereThere) {
  const Registry with_code = loaded(), without = described();
  for (const char* options : {"path: a",
                              "path: 5, size: 1e3",
                              "path: a, rate: 0",
                              "size: 3",
                              "path: a, size: 0",
                              "path: a, size: 1.5",
                              "path: a, size: many",
                              "path: a, rate: 1",
                              "path: a, rate: -0.1",
                              "path: a, quick: yes",
                              "path: a, quick: true",
                              "path: a, file: data/x.csv",
                              "path: a, hue: blue",
                              "path: a, hue: blu",
                              "path: a, hue: [red]",
                              "path: a, unit: km",
                              "path: a, unit: mm",
                              "path: a, widths: 5",
                              "path: a, widths: [5, x]",
                              "path: a, limit: none",
                              "path: a, limit: 3",
                              "path: a, limit: x",
                              "path: a, workers: auto",
                              "path: a, workers: 4",
                              "path: a, workers: all",
                              "path: a, every: [5 steps, 2 min]",
                              "path: a, every: never",
                              "path: a, every: now",
                              "path: a, inner: {depth: 3}",
                              "path: a, inner: {depth: 0}",
                              "path: a, inner: {dept: 3}",
                              "path: a, inner: 5",
                              "path: a, sise: 5",
                              "path: a, base: {type: acme/many, path: b}",
                              "path: a, base: acme/mny",
                              "path: a, base: {type: acme/many, path: b, size: 0}"}) {
    const std::string yaml = std::string("{type: acme/many, ") + options + "}";
    EXPECT_EQ(read(without, yaml), read(with_code, yaml)) << yaml;
  }
  EXPECT_EQ(read(without, "acme/many"), read(with_code, "acme/many"));
}

TEST(DescribedTest, ItIsInTheJsonSchemaAsIfTheCodeWereThere) {
  EXPECT_EQ(json_schema({}, described()), json_schema({}, loaded()));
}

TEST(DescribedTest, AKindThatIsNotThereIsRefused) {
  Registry registry;
  try {
    enter_described({"modell", "acme/net", "", {}}, registry);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "there is no kind of component named 'modell'");
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
  }
}

}  // namespace
}  // namespace accel
