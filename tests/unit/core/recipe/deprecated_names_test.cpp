#include "core/recipe/deprecated_names.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/api/tracker.h"
#include "core/recipe/compose.h"
#include "core/recipe/json_schema.h"
#include "core/recipe/registry.h"
#include "core/recipe/wrapped.h"
#include "tests/unit/core/recipe_text.h"

namespace accel::deprecated_names_test {
namespace {

struct InkOptions {
  int64_t hidden_size = 8;
  std::vector<std::string> tags;
  static Schema<InkOptions> schema() {
    return Schema<InkOptions>()
        .field("hidden_size", &InkOptions::hidden_size, "Features.", at_least<int64_t>(1))
        .renamed_from("width")
        .hint_for({"n_embd"})
        .field("tags", &InkOptions::tags, "Words.")
        .renamed_from("words");
  }
};

struct BrushOptions {
  int64_t breadth = 8;
  int64_t intermediate_size = 8;
  static Schema<BrushOptions> schema() {
    return Schema<BrushOptions>()
        .field("breadth", &BrushOptions::breadth, "Breadth.")
        .renamed_from("width")
        .field("intermediate_size", &BrushOptions::intermediate_size, "Inner features.")
        .renamed_from("hidden");
  }
};

struct KeepPart {
  int64_t last = 1;
  std::string metric = "loss";
  static Schema<KeepPart> schema() {
    return Schema<KeepPart>()
        .field("last", &KeepPart::last, "How many.")
        .field("metric", &KeepPart::metric, "Which is best.")
        .renamed_from("by");
  }
};

struct PagePart {
  int64_t weight = 1;
  static Schema<PagePart> schema() {
    return Schema<PagePart>()
        .field("weight", &PagePart::weight, "Its share.")
        .renamed_from("share");
  }
};

struct PageRecipe {
  int64_t seed = 1;
  Ref<Tracker> tracker;
  std::vector<Wrapped<Tracker, PagePart>> pages;
  KeepPart keep;
  std::map<std::string, Node> vars;
  std::map<std::string, Node> smoke;
  static Schema<PageRecipe> schema() {
    return Schema<PageRecipe>()
        .field("seed", &PageRecipe::seed, "Of everything.")
        .field("tracker", &PageRecipe::tracker, "What draws.")
        .required()
        .renamed_from("painter")
        .field("pages", &PageRecipe::pages, "Where.")
        .field("keep", &PageRecipe::keep, "What stays.")
        .field("vars", &PageRecipe::vars, "Values.")
        .field("smoke", &PageRecipe::smoke, "Overrides.");
  }
};

/// A component that is never built.
template <class Options>
void enter(Registry& registry, const std::string& name, const std::string& old_name) {
  ComponentInfo info = {name, "SampleOrder.", Options::schema().info()};
  info.renamed_from = old_name;
  registry.of<Tracker>().add(info, [name](const Node& node, Reading& reading) {
    const size_t before = reading.problems.size();
    const Options options = Options::schema().read(detail::without_type(node), reading);
    if (reading.problems.size() != before) return Ref<Tracker>{};
    return Ref<Tracker>{name,
                        detail::with_type(name, Options::schema().write(options, &node), node),
                        [](const TrackerContext&) { return std::unique_ptr<Tracker>(); }};
  });
}

const Registry& painters() {
  static const Registry registry = [] {
    Registry made;
    enter<InkOptions>(made, "ink", "quill");
    enter<BrushOptions>(made, "brush", "");
    return made;
  }();
  return registry;
}

/// The resolved form of a recipe and every warning, or what is wrong.
std::string resolved(const Node& tree) {
  Diagnostics problems;
  const std::vector<FieldInfo> sections = PageRecipe::schema().info();
  Reading reading{problems, painters(), &sections};
  Node given = tree;
  DeprecatedNames(sections, painters()).replace(given, problems);
  const PageRecipe recipe = PageRecipe::schema().read(given, reading);
  std::string out;
  for (const Diagnostic& warning : problems.warnings()) out += render(warning);
  try {
    problems.check();
  } catch (const RecipeError& error) {
    return error.what();
  }
  Node written = PageRecipe::schema().write(recipe, &given);
  return out + outline(written);
}

std::string resolved(const std::string& text) {
  return resolved(parse_recipe("r.yaml", text));
}

TEST(DeprecatedNamesTest, AnOldNameOfAnOptionIsAWarningAtItsPlace) {
  EXPECT_EQ(resolved("tracker:\n  type: ink\n  width: 64\n"),
            "r.yaml:3:3: warning: 'width' is called 'hidden_size' now\n"
            "      width: 64\n"
            "      ^\n"
            "  hint: write 'hidden_size: 64'\n"
            "{seed: 1, tracker: {type: ink, hidden_size: 64, tags: []}, pages: [], keep: {last: 1, "
            "metric: 'loss'}, vars: {}, smoke: {}}");
}

TEST(DeprecatedNamesTest, TheSchemaItselfReadsOldNames) {
  Diagnostics problems;
  Reading reading{problems, painters()};
  const InkOptions ink = InkOptions::schema().read(parse_recipe("r.yaml", "width: 3"), reading);
  EXPECT_EQ(ink.hidden_size, 3);
  EXPECT_TRUE(problems.empty());
  ASSERT_EQ(problems.warnings().size(), 1u);
  EXPECT_EQ(problems.warnings()[0].message, "'width' is called 'hidden_size' now");
}

struct RenameCase {
  const char* text;
  const char* tree;  ///< as far as it was given
  std::vector<const char*> warnings;
};

TEST(DeprecatedNamesTest, NamesAreReplacedWhereverTheyStand) {
  const RenameCase cases[] = {
      {"{painter: {type: quill, words: a}}",
       "{tracker: {type: ink, tags: a}}",
       {"'painter' is called 'tracker' now", "the tracker 'quill' is called 'ink' now",
        "'words' is called 'tags' now"}},
      {"{tracker: quill}", "{tracker: ink}", {"the tracker 'quill' is called 'ink' now"}},
      {"{tracker: {type: brush, width: 1, hidden: 2}}",
       "{tracker: {type: brush, breadth: 1, intermediate_size: 2}}",
       {"'width' is called 'breadth' now", "'hidden' is called 'intermediate_size' now"}},
      {"{pages: [{type: ink, share: 2, width: 3}]}",
       "{pages: [{type: ink, weight: 2, hidden_size: 3}]}",
       {"'share' is called 'weight' now", "'width' is called 'hidden_size' now"}},
      {"{pages+: {type: ink, words+: [b]}, keep!: {by: x}, tracker: {type: ink, ~width: ~}}",
       "{pages+: {type: ink, tags+: [b]}, keep!: {metric: x}, tracker: {type: ink, ~hidden_size: "
       "~}}",
       {"'words' is called 'tags' now", "'by' is called 'metric' now",
        "'width' is called 'hidden_size' now"}},
      {"{tracker: {width: 1}}", "{tracker: {width: 1}}", {}},  // of which type is not known
      {"{tracker: {type: '${vars.t}', width: 1}, vars: {width: 2}}",
       "{tracker: {type: '${vars.t}', width: 1}, vars: {width: 2}}",
       {}},
      {"{x-note: {width: 1}, width: 2}", "{x-note: {width: 1}, width: 2}", {}},
  };
  for (const RenameCase& each : cases) {
    Diagnostics problems;
    Node tree = parse_recipe("r.yaml", each.text);
    DeprecatedNames(PageRecipe::schema().info(), painters()).replace(tree, problems);
    EXPECT_EQ(outline(tree), each.tree);
    std::vector<std::string> found;
    for (const Diagnostic& warning : problems.warnings()) found.push_back(warning.message);
    EXPECT_EQ(found, std::vector<std::string>(each.warnings.begin(), each.warnings.end()));
  }
}

TEST(DeprecatedNamesTest, BothNamesInOnePlaceAreAnError) {
  EXPECT_EQ(resolved("tracker: {type: ink, width: 64, hidden_size: 32}\n"),
            "r.yaml:1:22: error: 'width' is called 'hidden_size' now, and both are given\n"
            "    tracker: {type: ink, width: 64, hidden_size: 32}\n"
            "                         ^\n"
            "  hint: leave 'width' out\n");
}

TEST(DeprecatedNamesTest, ErrorsAndWarningsAreToldInTheOrderOfTheText) {
  EXPECT_EQ(resolved("sed: 2\ntracker: {type: ink, width: 64}\n"),
            "r.yaml:1:1: error: unknown option 'sed'\n"
            "    sed: 2\n"
            "    ^\n"
            "  hint: did you mean 'seed'?\n"
            "r.yaml:2:22: warning: 'width' is called 'hidden_size' now\n"
            "    tracker: {type: ink, width: 64}\n"
            "                         ^\n"
            "  hint: write 'hidden_size: 64'\n");
}

TEST(DeprecatedNamesTest, KeysHaveTheirCurrentNamesByTheTypesInTheRecipe) {
  const DeprecatedNames names(PageRecipe::schema().info(), painters());
  const Node recipe = parse_recipe("r.yaml", "{tracker: {type: brush}, pages: [{type: ink}]}");
  EXPECT_EQ(names.current_key("tracker.width", recipe), "tracker.breadth");
  EXPECT_EQ(names.current_key("painter.width", recipe), "tracker.breadth");
  EXPECT_EQ(names.current_key("pages.0.width", recipe), "pages.0.hidden_size");
  EXPECT_EQ(names.current_key("pages.1.width", recipe), "pages.1.width") << "there is none";
  EXPECT_EQ(names.current_key("keep.by", recipe), "keep.metric");
  EXPECT_EQ(names.current_key("optimizer.bin", recipe), "optimizer.bin");
}

/// What layers make, each of an argument but the first, and the warnings.
std::string composed(const std::string& recipe, const std::vector<std::string>& arguments,
                     bool smoke = false) {
  const DeprecatedNames names(PageRecipe::schema().info(), painters());
  ComposeRequest request;
  request.recipe = ::testing::TempDir() + "deprecated.yaml";
  std::ofstream(request.recipe) << recipe;
  request.smoke = smoke;
  request.names = &names;
  int number = 2;
  for (const std::string& text : arguments) request.overrides.push_back({number++, text});
  Diagnostics problems;
  const Composition out = compose(request, problems);
  problems.check();
  std::string reported;
  for (Diagnostic warning : problems.warnings()) {
    if (warning.where.source->kind == Source::Kind::kFile) warning.where = {};
    reported += render(warning);
  }
  return reported + outline(out.recipe);
}

TEST(DeprecatedNamesTest, TheLaterLayerWinsWhicheverNameItHas) {
  EXPECT_EQ(composed("tracker: {type: ink, width: 64}", {"tracker.hidden_size=2"}),
            "warning: 'width' is called 'hidden_size' now\n  hint: write 'hidden_size: 64'\n"
            "{tracker: {type: ink, hidden_size: 2}}");
  EXPECT_EQ(composed("tracker: {type: ink, hidden_size: 64}", {"tracker.width=2"}),
            "argument 2: warning: 'width' is called 'hidden_size' now\n"
            "    tracker.width=2\n"
            "    ^\n"
            "  hint: write 'tracker.hidden_size=2'\n"
            "{tracker: {type: ink, hidden_size: 2}}");
  EXPECT_EQ(composed("tracker: {type: ink, hidden_size: 64}", {"tracker={type: brush, width: 2}"}),
            "argument 2: warning: 'width' is called 'breadth' now\n"
            "    tracker={type: brush, width: 2}\n"
            "                          ^\n"
            "  hint: write 'breadth: 2'\n"
            "{tracker: {type: brush, breadth: 2}}");
  EXPECT_EQ(composed("pages: [{type: ink, tags: [a]}]", {"pages.0.words+=b"}),
            "argument 2: warning: 'words' is called 'tags' now\n"
            "    pages.0.words+=b\n"
            "    ^\n"
            "  hint: write 'pages.0.tags=b'\n"
            "{pages: [{type: ink, tags: [a, b]}]}");
  EXPECT_EQ(composed("keep: {metric: a}", {"~keep.by"}),
            "argument 2: warning: 'by' is called 'metric' now\n"
            "    ~keep.by\n"
            "    ^\n"
            "  hint: write 'keep.metric'\n"
            "{keep: {metric: ~}}");
}

TEST(DeprecatedNamesTest, TheTypeOfAComponentMayComeInALaterLayer) {
  EXPECT_EQ(composed("tracker: {width: 64}", {"tracker.hidden_size=2", "tracker.type=ink"}),
            "warning: 'width' is called 'hidden_size' now\n  hint: write 'hidden_size: 64'\n"
            "{tracker: {hidden_size: 2, type: ink}}");
  EXPECT_EQ(composed("tracker: {width: 64}", {"tracker={type: brush, breadth: 3}"}),
            "warning: 'width' is called 'breadth' now\n  hint: write 'breadth: 64'\n"
            "{tracker: {breadth: 3, type: brush}}");
}

TEST(DeprecatedNamesTest, BothNamesInOneLayerAreAnErrorWhereverTheTypeIs) {
  try {
    composed("tracker: {width: 64, hidden_size: 32}", {"tracker.type=ink"});
    FAIL() << "both were taken";
  } catch (const RecipeError& error) {
    ASSERT_EQ(error.diagnostics().size(), 1U);
    EXPECT_EQ(error.diagnostics()[0].message,
              "'width' is called 'hidden_size' now, and both are given");
    EXPECT_EQ(error.diagnostics()[0].hint, "leave 'width' out");
  }
}

TEST(DeprecatedNamesTest, TheSmokeSectionIsRenamedToo) {
  const std::string recipe = "tracker: {type: ink, hidden_size: 64}\nsmoke: {tracker.width: 2}";
  const std::string warning =
      "warning: 'width' is called 'hidden_size' now\n  hint: write 'hidden_size: 2'\n";
  EXPECT_EQ(composed(recipe, {}),
            warning + "{tracker: {type: ink, hidden_size: 64}, smoke: {tracker.hidden_size: 2}}");
  EXPECT_EQ(composed(recipe, {}, /*smoke=*/true),
            warning + "{tracker: {type: ink, hidden_size: 2}, smoke: {tracker.hidden_size: 2}}");
}

TEST(DeprecatedNamesTest, TheJsonSchemaMarksThem) {
  const std::string schema = json_schema(PageRecipe::schema().info(), painters());
  EXPECT_NE(schema.find("\"description\": \"Called 'hidden_size' now.\""), schema.npos);
  EXPECT_NE(schema.find("\"description\": \"Called 'ink' now.\""), schema.npos);
  EXPECT_NE(schema.find("\"deprecated\": true"), schema.npos);
}

}  // namespace
}  // namespace accel::deprecated_names_test
