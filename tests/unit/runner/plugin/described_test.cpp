#include "runner/plugin/described.h"

#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "core/recipe/json_schema.h"
#include "core/recipe/registry.h"
#include "runner/plugin/manifest.h"
#include "tests/unit/runner/plugin/temporary_folder.h"

namespace accel {

namespace described_test {
enum class Hue { kRed, kBlue };
}  // namespace described_test

template <>
struct EnumNames<described_test::Hue> {
  using Hue = described_test::Hue;
  static constexpr std::pair<Hue, const char*> kValues[] = {{Hue::kRed, "red"},
                                                            {Hue::kBlue, "blue"}};
};

namespace described_test {
namespace {

struct InnerOptions {
  int64_t depth = 2;
  static Schema<InnerOptions> schema() {
    return Schema<InnerOptions>()
        .field("depth", &InnerOptions::depth, "How deep.", between<int64_t>(1, 9))
        .renamed_from("layers")
        .hint_for({"num_layers"});
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
  static constexpr auto kRenamedFrom = "acme/lots";
  static constexpr const char* kHintFor[] = {"acme/several", "acme/some"};
  static constexpr auto kSummary = "Has one option of every kind.";

  static Schema<ManyOptions> schema() {
    return Schema<ManyOptions>()
        .field("path", &ManyOptions::path, "Where.")
        .required()
        .field("size", &ManyOptions::size, "How many.", at_least<int64_t>(1))
        .renamed_from("rows")
        .hint_for({"num_rows"})
        .hint_for({"one_row"}, "1")
        .field("rate", &ManyOptions::rate, "How fast.", within(0.0, 1.0))
        .hint_for({"speed"}, "\"slow\">0.1|fast>0.9|{}")
        .field("quick", &ManyOptions::quick, "Whether.")
        .hint_for({"fast"}, "true")
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

/// The component as a manifest's file describes it.
DescribedComponent through_file(const DescribedComponent& component) {
  const TemporaryFolder folder;
  const PluginManifest manifest = {"acme/many", "1", "MIT", 1, std::string(64, 'a'), {component}};
  const std::string path = folder.write("many.so.toml", write_plugin_manifest(manifest));
  return read_plugin_manifest(path).components.at(0);
}

/// What the plugin's description alone gives.
Registry described() {
  Registry registry;
  for (const DescribedComponent& component : describe_components(loaded())) {
    const bool is_plugins = component.name == Many::kName;
    enter_described(is_plugins ? through_file(component) : component, registry);
  }
  return registry;
}

/// All that a field has.
std::string text_of(const FieldInfo& field) {
  std::string out = field.name + '\n' + field.type + '\n' + field.fallback + '\n' + field.help +
                    '\n' + field.rule + '\n' + field.json + '\n' + field.kind + '\n';
  out += std::to_string(field.required) + std::to_string(static_cast<int>(field.change)) +
         std::to_string(field.handled) + field.renamed_from + '\n';
  for (const OptionHint& hint : field.hints) out += hint.name + ": " + hint.value + '\n';
  for (const FieldInfo& inner : field.fields) out += "{\n" + text_of(inner) + "}\n";
  return out;
}

std::string text_of(const ComponentInfo& info) {
  std::string out = info.summary + '\n' + info.renamed_from + '\n';
  for (const std::string& name : info.hint_for) out += name + ' ';
  for (const FieldInfo& field : info.fields) out += text_of(field);
  return out;
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
                              "path: a, rows: 3",
                              "path: a, rows: 3, size: 4",
                              "path: a, num_rows: 3",
                              "path: a, one_row: true",
                              "path: a, one_row: false",
                              "path: a, speed: fast",
                              "path: a, speed: 0.3",
                              "path: a, fast: true",
                              "path: a, inner: {layers: 3}",
                              "path: a, inner: {num_layers: 3}",
                              "path: a, num_layers: 3",
                              "path: a, inner: num_layers",
                              "path: a, base: {type: acme/lots, path: b}",
                              "path: a, base: acme/several",
                              "path: a, base: {type: acme/many, path: b}",
                              "path: a, base: acme/mny",
                              "path: a, base: {type: acme/many, path: b, size: 0}"}) {
    const std::string yaml = std::string("{type: acme/many, ") + options + "}";
    EXPECT_EQ(read(without, yaml), read(with_code, yaml)) << yaml;
  }
  EXPECT_EQ(read(without, "acme/many"), read(with_code, "acme/many"));
}

TEST(DescribedTest, EveryComponentsDescriptionIsKeptInAManifest) {
  size_t renamed = 0, hints = 0;
  for (DescribedComponent component : describe_components(loaded())) {
    const std::string name = component.name;
    component.name = "acme/component";
    EXPECT_EQ(text_of(info_of(through_file(component))), text_of(info_of(component))) << name;
    for (const DescribedOption& option : component.options) {
      renamed += !option.renamed_from.empty();
      hints += option.hints.size();
    }
  }
  EXPECT_GT(renamed, 20U);
  EXPECT_GT(hints, 100U);
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
    EXPECT_STREQ(error.what(), "there is no component kind 'modell'");
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
  }
}

}  // namespace
}  // namespace described_test
}  // namespace accel
