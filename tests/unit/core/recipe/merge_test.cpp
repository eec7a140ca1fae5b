#include "core/recipe/merge.h"

#include <gtest/gtest.h>

#include "tests/unit/core/recipe_text.h"

namespace accel::merge_test {
namespace {

/// The layers laid over one another, or the complaint.
std::string merged(const std::vector<std::string>& layers, History* history = nullptr) {
  Node out;
  History all;
  const std::string problems = complaint([&](Diagnostics& diagnostics) {
    Merging merging{all, diagnostics};
    int number = 0;
    for (const std::string& layer : layers) {
      const std::string path = std::to_string(++number) + ".yaml";
      merge(out, parse_recipe(path, layer), {}, merging);
    }
  });
  if (history) *history = all;
  return problems.empty() ? outline(out) : problems;
}

struct MergeCase {
  std::vector<std::string> layers;
  const char* result;
};

TEST(MergeTest, LayersMergeByTheRulesOfTheGrammar) {
  const MergeCase cases[] = {
      {{"a: {x: 1, y: 2}", "a: {y: 3, z: 4}"}, "{a: {x: 1, y: 3, z: 4}}"},
      {{"a: [1, 2]", "a: [3]"}, "{a: [3]}"},
      {{"a: [1]", "a+: [2, 3]"}, "{a: [1, 2, 3]}"},
      {{"a: [1]", "a+: 2"}, "{a: [1, 2]}"},
      {{"a: one", "a+: two"}, "{a: [one, two]}"},
      {{"a+: [1]"}, "{a: [1]}"},
      {{"c: [{type: ema}]", "c+: {type: early_stop}"}, "{c: [{type: ema}, {type: early_stop}]}"},
      {{"a: {x: 1, y: 2}", "a!: {z: 3}"}, "{a: {z: 3}}"},
      {{"a: {x: 1}", "a: ~"}, "{a: ~}"},
      {{"a: {x: 1}", "~a: true"}, "{a: ~}"},
      {{"a: {x: 1}", "~a:"}, "{a: ~}"},
      {{"a: ~", "a: {x: 1}"}, "{a: {x: 1}}"},
      {{"o: {type: adamw, lr: 1, eps: 2}", "o: {lr: 3}"}, "{o: {type: adamw, lr: 3, eps: 2}}"},
      {{"o: {type: adamw, lr: 1}", "o: {type: sgd}"}, "{o: {type: sgd}}"},
      {{"o: {type: adamw, lr: 1}", "o: {momentum: 2, type: sgd}"}, "{o: {momentum: 2, type: sgd}}"},
      {{"o: {type: adamw, lr: 1}", "o: {type: adamw}"}, "{o: {type: adamw, lr: 1}}"},
      {{"o: {type: adamw, lr: 1}", "o: adamw"}, "{o: {type: adamw, lr: 1}}"},
      {{"o: {type: adamw, lr: 1}", "o: sgd"}, "{o: {type: sgd}}"},
      {{"o: adamw", "o: {lr: 1}"}, "{o: {type: adamw, lr: 1}}"},
      {{"o: {lr: 1}", "o: {type: sgd}"}, "{o: {lr: 1, type: sgd}}"},
      {{"a: {b: {c: {d: 1}}}", "a: {b: {c: {e: 2}}}"}, "{a: {b: {c: {d: 1, e: 2}}}}"},
      {{"a: [{b+: [1], ~c: true}]"}, "{a: [{b: [1], c: ~}]}"},
      {{"a: {}", "b: 1"}, "{a: {}, b: 1}"},
      {{"a: 1", "{}"}, "{a: 1}"},
      {{"'+': 1"}, "{+: 1}"},
  };
  for (const MergeCase& c : cases) EXPECT_EQ(merged(c.layers), c.result) << c.layers.back();
}

TEST(MergeTest, ARemovalTakesNoValue) {
  EXPECT_EQ(merged({"~a: 5\n"}),
            "1.yaml:1:5: error: '~a' takes no value\n    ~a: 5\n        ^\n"
            "  hint: write '~a': true\n");
}

TEST(MergeTest, ValuesKeepThePlaceOfTheLayerThatWroteThem) {
  Node out;
  History history;
  Diagnostics problems;
  Merging merging{history, problems};
  merge(out, parse_recipe("a.yaml", "train:\n  batch: 1\n  until: 2\n"), {}, merging);
  merge(out, parse_recipe("b.yaml", "\n\ntrain: {batch: 5}\n"), {}, merging);
  const Node& train = out.find("train")->node;
  EXPECT_EQ(train.find("batch")->node.where.source->path, "b.yaml");
  EXPECT_EQ(train.find("batch")->where.line, 3) << "the key, too";
  EXPECT_EQ(train.find("until")->node.where.source->path, "a.yaml");
  EXPECT_EQ(train.where.source->path, "a.yaml");
}

TEST(MergeTest, ASectionOfAnotherTypeIsAtTheLayerThatReplacesIt) {
  for (const char* layer : {"\no: {type: sgd}\n", "\no: sgd\n"}) {
    Node out;
    History history;
    Diagnostics problems;
    Merging merging{history, problems};
    merge(out, parse_recipe("a.yaml", "o: {type: adamw, lr: 1}\n"), {}, merging);
    merge(out, parse_recipe("b.yaml", layer), {}, merging);
    const Node::Entry& section = *out.find("o");
    EXPECT_EQ(section.where.source->path, "b.yaml") << layer;
    EXPECT_EQ(section.node.where.source->path, "b.yaml") << layer;
    EXPECT_EQ(section.node.where.line, 2) << layer;
    merge(out, parse_recipe("c.yaml", "o: {type: sgd, lr: 3}\n"), {}, merging);
    EXPECT_EQ(section.node.where.source->path, "b.yaml") << "the same type is merged into it";
  }
}

std::string reported(const History& history) {
  std::string out;
  for (const Assignment& a : history) {
    const char* effects[] = {"=", "+=", "dropped by"};
    out += a.value.where.source->path + " " + a.key + " " + effects[static_cast<int>(a.effect)] +
           " " + outline(a.value) + "\n";
  }
  return out;
}

TEST(MergeTest, TheHistoryNamesEveryLayerThatSpokeOfAKey) {
  History history;
  merged(
      {"o: {type: adamw, lr: 1}\nc: [a]\n", "o: {lr: 2}\nc+: [b]\n", "o: {type: sgd}\n~c: true\n"},
      &history);
  EXPECT_EQ(reported(assignments_of(history, "o.lr")),
            "1.yaml o.lr = 1\n2.yaml o.lr = 2\n3.yaml o.lr dropped by sgd\n");
  EXPECT_EQ(reported(assignments_of(history, "c")),
            "1.yaml c = [a]\n2.yaml c += [b]\n3.yaml c = ~\n");
  EXPECT_EQ(reported(assignments_of(history, "c.0")), reported(assignments_of(history, "c")));
  EXPECT_EQ(assignments_of(history, "o").size(), 5u) << "a section reports its keys";
  EXPECT_TRUE(assignments_of(history, "op").empty());
}

}  // namespace
}  // namespace accel::merge_test
