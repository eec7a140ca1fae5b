#include "core/recipe/schema.h"

#include <gtest/gtest.h>

#include "tests/unit/core/recipe_text.h"
#include "tests/unit/core/test_components.h"

namespace accel::schema_test {
namespace {

/// What reading `text` as a test recipe complains of.
std::string read_complaint(const std::string& text) {
  return complaint([&](Diagnostics& problems) {
    const Registry registry = test_registry();
    const std::vector<FieldInfo> fields = TestRecipe::schema().info();
    Reading reading{problems, registry, &fields};
    TestRecipe::schema().read(parse_recipe("r.yaml", text), reading);
  });
}

TestRecipe read_good(const std::string& text) {
  Diagnostics problems;
  const Registry registry = test_registry();
  Reading reading{problems, registry};
  TestRecipe out = TestRecipe::schema().read(parse_recipe("r.yaml", text), reading);
  problems.check();
  return out;
}

/// The first line of a complaint behind the file name, and the hint.
std::string brief(const std::string& option) {
  const std::string all = read_complaint("train: {type: counting, path: x}\n" + option + "\n");
  const size_t hint = all.find("  hint: ");
  const std::string first = all.substr(0, all.find('\n'));
  return first.substr(std::min(first.size(), first.find(':') + 1)) +
         (hint == all.npos ? "" : " | " + all.substr(hint + 8, all.size() - hint - 9));
}

TEST(SchemaTest, AValueIsNoSection) {
  Diagnostics problems;
  const Registry registry = test_registry();
  Reading reading{problems, registry};
  TestRecipe::schema().read(parse_recipe("r.yaml", "a: 5").find("a")->node, reading);
  ASSERT_EQ(problems.list().size(), 1U);
  EXPECT_EQ(problems.list()[0].message, "expected a section, not '5'");
}

TEST(SchemaTest, OptionsAreReadOverTheirDefaults) {
  const TestRecipe recipe = read_good(
      "train: {type: counting, path: x}\nseed: 7\nmode: bf16\nuntil: 90 min\nmicro: 4\nclip: 1.5\n"
      "names: one\nbounds: {a: 1, b: 2}\nevery: [500 steps, 30 min]\ncache: 4 GiB\n"
      "eval: {type: counting, path: y}\nloader: {shuffle: false}\nfolder: /a/../b\nx-note: any\n");
  EXPECT_EQ(recipe.seed, 7);
  EXPECT_EQ(recipe.lr, 0.1);
  EXPECT_EQ(recipe.mode, TestMode::kBf16);
  EXPECT_EQ(to_string(recipe.until), "90 min");
  EXPECT_EQ(*recipe.micro, 4);
  EXPECT_EQ(recipe.clip, 1.5);
  EXPECT_EQ(recipe.names, std::vector<std::string>{"one"}) << "one value is a list of one";
  EXPECT_EQ(recipe.bounds.at("b"), 2);
  EXPECT_EQ(recipe.every.size(), 2u);
  EXPECT_EQ(recipe.cache.bytes, int64_t{4} << 30);
  EXPECT_EQ(recipe.eval.size(), 1u);
  EXPECT_EQ(recipe.loader.workers, 2);
  EXPECT_FALSE(recipe.loader.shuffle);
  EXPECT_EQ(recipe.folder.text, "/b");
  EXPECT_EQ(recipe.train.make({})->size(), 10);
}

struct Ring {
  double width = 1.0;
  int64_t stones = 2;
  static Schema<Ring> schema() {
    return Schema<Ring>()
        .field("width", &Ring::width, "mm")
        .field("stones", &Ring::stones, "of the ring");
  }
};

struct Jewel {
  Ring ring = {.width = 2.5};
  static Schema<Jewel> schema() { return Schema<Jewel>().field("ring", &Jewel::ring, "of gold"); }
};

TEST(SchemaTest, ASectionGivenInPartHasTheDefaultsOfItsMember) {
  Diagnostics problems;
  const Registry registry = test_registry();
  Reading reading{problems, registry};
  const auto read = [&](const char* recipe) {
    return Jewel::schema().read(parse_recipe("r.yaml", recipe), reading).ring;
  };
  EXPECT_EQ(read("ring: {stones: 7}").width, 2.5);
  EXPECT_EQ(read("ring: {stones: 7}").stones, 7);
  EXPECT_EQ(read("ring: {}").width, 2.5);
  EXPECT_EQ(read("ring:").width, 2.5);
  EXPECT_EQ(read("ring: {width: 4}").width, 4.0);
  EXPECT_TRUE(problems.list().empty());
  const std::vector<FieldInfo> rings = Jewel::schema().info().at(0).fields;
  EXPECT_EQ(rings.at(0).fallback, "2.5");
  EXPECT_EQ(rings.at(1).fallback, "2");
}

/// What reading a recipe without `key`, as `~key` on the command line removes it, gives.
TestRecipe read_without(const std::string& key, Diagnostics& problems) {
  const Registry registry = test_registry();
  Reading reading{problems, registry};
  Node tree = parse_recipe("r.yaml", "train: {type: counting, path: x}\n");
  const Span where = {
      std::make_shared<const Source>(Source{"~" + key, "~" + key, Source::Kind::kArgument, 2}), 1,
      1};
  std::erase_if(*tree.map(), [&](const Node::Entry& entry) { return entry.key == key; });
  tree.map()->push_back({key, where, Node({}, where)});
  return TestRecipe::schema().read(tree, reading);
}

TEST(SchemaTest, WhatIsRemovedIsTheDefault) {
  Diagnostics problems;
  EXPECT_EQ(read_without("lr", problems).lr, 0.1);
  EXPECT_EQ(read_without("mode", problems).mode, TestMode::kNo);
  EXPECT_TRUE(read_without("every", problems).every.empty()) << "nothing has a meaning there";
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(complaint([](Diagnostics& reported) { read_without("train", reported); }),
            "argument 2: error: 'train' is missing\n"
            "    ~train\n"
            "    ^\n"
            "  hint: add 'train': Data.\n");
}

TEST(SchemaTest, NothingAndNoneStandForAbsence) {
  const TestRecipe recipe = read_good(
      "train: {type: counting, path: x}\nclip: none\nnames: ~\nevery: never\nloader:\n"
      "micro: auto\neval: []\n");
  EXPECT_FALSE(recipe.clip);
  EXPECT_TRUE(recipe.names.empty());
  EXPECT_TRUE(recipe.every.empty());
  EXPECT_FALSE(recipe.micro);
  EXPECT_EQ(recipe.loader.workers, 2);
}

struct OptionCase {
  const char* option;
  const char* complaint;
};

TEST(SchemaTest, EachMistakeSaysWhatWasFoundAndWhatWasWanted) {
  const OptionCase cases[] = {
      {"sed: 1", "2:1: error: unknown option 'sed' | did you mean 'seed'?"},
      {"inclde: a", "2:1: error: unknown option 'inclde' | did you mean 'include'?"},
      {"wombat: 1", "2:1: error: unknown option 'wombat'"},
      {"workers: 1",
       "2:1: error: unknown option 'workers' | write 'workers: 1' inside the section 'loader'"},
      {"widths: 1",
       "2:1: error: unknown option 'widths' | write 'widths: 1' inside the section 'train', where "
       "the dataset is counting"},
      {"loader: {lr: 1}",
       "2:10: error: unknown option 'lr' | 'lr' belongs at the top of the recipe"},
      {"loader.workers: 1",
       "2:1: error: unknown option 'loader.workers' | write 'workers' inside the section 'loader'"},
      {"loader: {type: x}", "2:10: error: unknown option 'type'"},
      {"loader: 5", "2:9: error: 'loader' wants a section, not '5'"},
      {"seed: '7'", "2:7: error: 'seed' wants a whole number, not the text '7' | drop the quotes"},
      {"seed: -1", "2:7: error: 'seed' must be at least 0, not -1"},
      {"seed: ~", "2:7: error: 'seed' wants a whole number, not nothing"},
      {"seed: [1]", "2:7: error: 'seed' wants a whole number, not a list"},
      {"lr: 1.5", "2:5: error: 'lr' must be in [0, 1), not 1.5"},
      {"lr: 1e999", "2:5: error: 'lr' wants a number, not '1e999' | the largest is about 1.8e308"},
      {"mode: fp16", "2:7: error: 'mode' wants one of no, bf16, not 'fp16'"},
      {"until: 3 epoch s",
       "2:8: error: 'until' wants a duration such as '500 steps' or '3 epochs', not '3 epoch s' | "
       "did you mean 'epochs'?"},
      {"every: [1 steps, 2 mni]",
       "2:18: error: 'every' wants a duration such as '500 steps' or '3 epochs', not '2 mni' | "
       "did you mean 'min'?"},
      {"every: ~",
       "2:8: error: 'every' wants a duration such as '500 steps' or '3 epochs', not nothing"},
      {"cache: 4 gb",
       "2:8: error: 'cache' wants a size such as '4 GiB', not '4 gb' | "
       "did you mean 'GB'?"},
      {"micro: 0", "2:8: error: 'micro' must be at least 1, not 0"},
      {"micro: all", "2:8: error: 'micro' wants a whole number or 'auto', not 'all'"},
      {"clip: -1", "2:7: error: 'clip' must be more than 0, not -1"},
      {"clip: much", "2:7: error: 'clip' wants a number or 'none', not 'much'"},
      {"names: [a, [b]]", "2:12: error: 'names' wants a text, not a list"},
      {"bounds: [a]", "2:9: error: 'bounds' wants a section, not a list"},
      {"bounds: {a: x}", "2:13: error: 'a' wants a number, not 'x'"},
      {"loader: {shuffle: yes}",
       "2:19: error: 'shuffle' wants true or false, not 'yes' | write true"},
      {"eval: countin", "2:7: error: no dataset is named 'countin' | did you mean 'counting'?"},
      {"eval: [{path: x}]",
       "2:8: error: the dataset has no 'type' | 'accel-run list dataset' shows what there is"},
      {"eval: {type: [a]}", "2:14: error: 'type' wants the name of a dataset, not a list"},
      {"eval: {type: counting, path: x, widths: [1, 0]}",
       "2:45: error: 'widths' must be a list of values at least 1, not [1, 0]"},
      {"eval: counting", "2:7: error: 'path' is missing | add 'path': Where it is."},
      {"folder: ~/x",
       "2:9: error: 'folder' starts with '~', which only a shell expands | "
       "write '${env:HOME}/x'"},
      {"key: abc",
       "2:6: error: 'key' has a secret in plain text | "
       "put it in the environment and write '${secret:NAME}'"},
  };
  for (const OptionCase& c : cases) EXPECT_EQ(brief(c.option), c.complaint) << c.option;
}

TEST(SchemaTest, EveryMistakeIsReportedAtOnce) {
  EXPECT_EQ(read_complaint("sed: 1\nlr: fast\nloader: {workers: 99, shufle: on}\n"),
            "r.yaml:1:1: error: unknown option 'sed'\n    sed: 1\n    ^\n"
            "  hint: did you mean 'seed'?\n"
            "r.yaml:1:1: error: 'train' is missing\n    sed: 1\n    ^\n"
            "  hint: add 'train': Data.\n"
            "r.yaml:2:5: error: 'lr' wants a number, not 'fast'\n    lr: fast\n        ^\n"
            "r.yaml:3:19: error: 'workers' must be between 0 and 8, not 99\n"
            "    loader: {workers: 99, shufle: on}\n                      ^\n"
            "r.yaml:3:23: error: unknown option 'shufle'\n"
            "    loader: {workers: 99, shufle: on}\n                          ^\n"
            "  hint: did you mean 'shuffle'?\n");
}

TEST(SchemaTest, OptionsOfAMisspelledComponentAreThoseOfTheClosest) {
  EXPECT_EQ(
      brief("eval: {type: other, path: x, siz: 3}"),
      "2:14: error: no dataset is named 'other' | 'accel-run list dataset' shows what there is");
  EXPECT_EQ(brief("eval: [{kind: counting, path: x}]"),
            "2:8: error: the dataset has no 'type' | write 'type' in place of 'kind'");
  EXPECT_EQ(read_complaint("train: {type: countin, path: x, siz: 3, x-note: 1}\n"),
            "r.yaml:1:15: error: no dataset is named 'countin'\n"
            "    train: {type: countin, path: x, siz: 3, x-note: 1}\n"
            "                  ^\n"
            "  hint: did you mean 'counting'?\n"
            "r.yaml:1:33: error: unknown option 'siz'\n"
            "    train: {type: countin, path: x, siz: 3, x-note: 1}\n"
            "                                    ^\n"
            "  hint: did you mean 'size'?\n");
}

TEST(SchemaTest, TheResolvedRecipeHasEveryOptionAndReadsBackTheSame) {
  const Node given = parse_recipe("r.yaml", "train: {type: counting, path: x}\nlr: 0.5\n");
  Diagnostics problems;
  const Registry registry = test_registry();
  Reading reading{problems, registry};
  const TestRecipe recipe = TestRecipe::schema().read(given, reading);
  const Node resolved = TestRecipe::schema().write(recipe, &given);
  EXPECT_EQ(outline(resolved),
            "{seed: 42, lr: 0.5, mode: no, folder: '', key: '', until: 3 epochs, every: never, "
            "cache: 4 KiB, micro: auto, clip: none, names: [], bounds: {}, "
            "train: {type: counting, path: 'x', size: 10, widths: [64]}, eval: [], "
            "loader: {workers: 2, shuffle: true}}");
  EXPECT_EQ(resolved.find("lr")->node.where.line, 2);
  EXPECT_EQ(resolved.find("seed")->node.where.source, nullptr) << "a default comes from nowhere";
  EXPECT_EQ(outline(TestRecipe::schema().write(read_good(to_yaml(resolved)))), outline(resolved));
}

TEST(SchemaTest, OptionsDescribeThemselves) {
  const std::vector<FieldInfo> fields = TestRecipe::schema().info();
  const auto field = [&](const std::string& name) {
    for (const FieldInfo& info : fields) {
      if (info.name == name) return info;
    }
    return FieldInfo{};
  };
  EXPECT_EQ(field("seed").type, "a whole number");
  EXPECT_EQ(field("seed").fallback, "42");
  EXPECT_EQ(field("seed").rule, "at least 0");
  EXPECT_EQ(field("seed").json, "\"type\": \"integer\", \"minimum\": 0");
  EXPECT_TRUE(field("train").required);
  EXPECT_EQ(field("train").kind, "dataset");
  EXPECT_EQ(field("loader").fields.size(), 2u);
  EXPECT_TRUE(field("include").handled);
}

}  // namespace
}  // namespace accel::schema_test
