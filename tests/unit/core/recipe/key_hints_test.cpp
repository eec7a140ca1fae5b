#include "core/recipe/key_hints.h"

#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "core/api/tracker.h"
#include "core/recipe/override.h"
#include "core/recipe/registry.h"
#include "tests/unit/core/recipe_text.h"

namespace accel::key_hints_test {
namespace {

enum class PenMode { kNo, kFine };

}  // namespace
}  // namespace accel::key_hints_test

namespace accel {
template <>
struct EnumNames<key_hints_test::PenMode> {
  static constexpr std::pair<key_hints_test::PenMode, const char*> kValues[] = {
      {key_hints_test::PenMode::kNo, "no"}, {key_hints_test::PenMode::kFine, "fine"}};
};
}  // namespace accel

namespace accel::key_hints_test {
namespace {

struct PenOptions {
  double lr = 0.1;
  static Schema<PenOptions> schema() {
    return Schema<PenOptions>().field("lr", &PenOptions::lr, "Rate.").hint_for({"learning_rate"});
  }
};

struct PipeOptions {
  double rate = 1;
  static Schema<PipeOptions> schema() {
    return Schema<PipeOptions>()
        .field("rate", &PipeOptions::rate, "Rate.")
        .hint_for({"learning_rate"});
  }
};

struct PenTrain {
  Duration until{1, Duration::Unit::kEpochs};
  PenMode mode = PenMode::kNo;
  std::string name;
  double share = 0;
  std::optional<double> bound;
  static Schema<PenTrain> schema() {
    return Schema<PenTrain>()
        .field("until", &PenTrain::until, "End.")
        .hint_for({"epochs"}, "{} epochs")
        .hint_for({"time"})
        .field("mode", &PenTrain::mode, "How fine.")
        .hint_for({"fineness"}, "1>no|2>fine|{}")
        .hint_for({"fine"}, "fine")
        .field("name", &PenTrain::name, "Of the run.")
        .hint_for({"output_dir"}, "{name}")
        .field("share", &PenTrain::share, "Of it all.")
        .hint_for({"ratio"}, "{percent}")
        .field("bound", &PenTrain::bound, "Of the line.")
        .hint_for({"clip"});
  }
};

struct PenRecipe {
  int64_t seed = 1;
  Ref<Tracker> tracker;
  Ref<Dataset> source;
  std::vector<Ref<Tracker>> others;
  PenTrain train;
  static Schema<PenRecipe> schema() {
    return Schema<PenRecipe>()
        .field("seed", &PenRecipe::seed, "Of everything.")
        .hint_for({"random_state"})
        .field("tracker", &PenRecipe::tracker, "What draws.")
        .hint_for({"logger"})
        .field("source", &PenRecipe::source, "Where from.")
        .field("others", &PenRecipe::others, "More.")
        .hint_for({"patience"}, "[{type: pen, lr: {}}]")
        .field("train", &PenRecipe::train, "How long.");
  }
};

const Registry& pens() {
  static const Registry registry = [] {
    Registry made;
    ComponentInfo info = {
        "fine_pen", "SampleOrder.", PenOptions::schema().info(), "", {"ballpoint"}};
    made.of<Tracker>().add(info, [](const Node& node, Reading& reading) {
      PenOptions::schema().read(detail::without_type(node), reading);
      return Ref<Tracker>{};
    });
    made.of<Dataset>().add({"pipe", "Reads.", PipeOptions::schema().info()},
                           [](const Node&, Reading&) { return Ref<Dataset>{}; });
    return made;
  }();
  return registry;
}

/// The hints of everything that is wrong with a recipe.
std::string hints_of(const Node& tree) {
  Diagnostics problems;
  const std::vector<FieldInfo> sections = PenRecipe::schema().info();
  Reading reading{problems, pens(), &sections};
  PenRecipe::schema().read(tree, reading);
  std::string out;
  for (const Diagnostic& each : problems.list()) out += (out.empty() ? "" : " | ") + each.hint;
  return out;
}

struct HintCase {
  const char* text;
  const char* hint;
};

TEST(KeyHintsTest, NamesOfOtherTrainersAreToldWithTheValueToWrite) {
  const HintCase cases[] = {
      {"epochs: 3", "write 'until: 3 epochs' inside the section 'train'"},
      {"epochs: 3 epochs", "write 'until: 3 epochs' inside the section 'train'"},
      {"train: {epochs: 3}", "write 'until: 3 epochs'"},
      {"train: {epochs: }", "write 'until: ... epochs'"},
      {"train: {time: 5 min}", "write 'until: 5 min'"},
      {"train: {time: '5 min'}", "write 'until: 5 min'"},
      {"fineness: 2", "write 'mode: fine' inside the section 'train'"},
      {"fineness: fine", "write 'mode: fine' inside the section 'train'"},
      {"fineness: 3", "write 'mode' inside the section 'train': one of no, fine"},
      {"fine: true", "write 'mode: fine' inside the section 'train'"},
      {"fine: false", "leave it out"},
      {"output_dir: runs/a/", "write 'name: a' inside the section 'train'"},
      {"ratio: 0.05", "write 'share: 5%' inside the section 'train'"},
      {"clip: 0.5", "write 'bound: 0.5' inside the section 'train'"},
      {"clip: none", "write 'bound: none' inside the section 'train'"},
      {"clip: much", "write 'bound' inside the section 'train': a number or 'none'"},
      {"learning_rate: 1e-3",
       "write 'lr: 1e-3' inside the section 'tracker', or 'rate: 1e-3' inside the section "
       "'source'"},
      {"tracker: {type: fine_pen, learning_rate: 1e-3}", "write 'lr: 1e-3'"},
      {"train: {random_state: 7}", "write 'seed: 7' at the top of the recipe"},
      {"logger: [fine_pen]", "write 'tracker: [fine_pen]'"},
      {"patience: 3", "write 'others: [{type: pen, lr: 3}]'"},
      {"train: fine", "write 'mode: fine' inside the section 'train'"},
      {"train: bold", ""},
      {"lr: 2", "write 'lr: 2' inside the section 'tracker', where the tracker is fine_pen"},
      {"until: 2 steps", "write 'until: 2 steps' inside the section 'train'"},
      {"train: {seed: 2}", "'seed' belongs at the top of the recipe"},
      {"tracker: ballpoint", "write 'fine_pen'"},
      {"tracker: Fine_Pen", "component names are lower case: 'fine_pen'"},
      {"tracker: FinePen", "component names are lower case: 'fine_pen'"},
      {"tracker: BallPoint", "component names are lower case: 'fine_pen'"},
      {"tracker: fine_pin", "did you mean 'fine_pen'?"},
  };
  for (const HintCase& each : cases) {
    EXPECT_EQ(hints_of(parse_recipe("r.yaml", each.text)), each.hint) << each.text;
  }
}

TEST(KeyHintsTest, AHintHasTheSyntaxOfItsFile) {
  const auto hints = [](const char* text) { return hints_of(parse_recipe("r.toml", text)); };
  EXPECT_EQ(hints("epochs = 3"), "write 'until = \"3 epochs\"' inside the section 'train'");
  EXPECT_EQ(hints("random_state = 3"), "write 'seed = 3'");
  EXPECT_EQ(hints("patience = 3"), "write 'others = [{type = \"pen\", lr = 3}]'");
}

TEST(KeyHintsTest, AHintForAnArgumentIsAnArgument) {
  const auto hints = [](const char* argument) {
    Diagnostics problems;
    History history;
    Merging merging{history, problems};
    Node tree = parse_recipe("r.yaml", "tracker: {type: fine_pen}");
    apply_overrides(tree, {parse_override(argument, 2, problems)}, merging);
    return hints_of(tree);
  };
  EXPECT_EQ(hints("epochs=3"), "write 'train.until=3 epochs'");
  EXPECT_EQ(hints("train.epochs=3"), "write 'train.until=3 epochs'");
  EXPECT_EQ(hints("tracker.learning_rate=3"), "write 'tracker.lr=3'");
  EXPECT_EQ(hints("train={epochs: 3}"), "write 'until: 3 epochs'");
  EXPECT_EQ(hints("until=3 steps"), "write 'train.until=3 steps'");
}

}  // namespace
}  // namespace accel::key_hints_test
