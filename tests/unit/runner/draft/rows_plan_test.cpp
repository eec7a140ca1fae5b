// What JSON rows are, by the names and types of their fields.
#include "runner/draft/rows_plan.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "runner/draft/field_texts.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::rows_plan_test {
namespace {

constexpr const char* kKinds[] = {"chat",   "pair",       "label",   "text",
                                  "tagged", "preference", "unpaired"};

/// "label: text -> label", or the error.
std::string plan_of(const std::string& row, const DraftRequest& request = {}) {
  const TempFolder work;
  std::string file;
  for (int i = 0; i < 20; ++i) file += row + "\n";
  const SniffedRows rows = sniff_rows(work.write("t.jsonl", file));
  try {
    const RowsPlan plan = plan_rows(rows, request);
    std::string out = std::string(kKinds[static_cast<int>(plan.kind)]) + ":";
    for (const std::string& name : plan.texts) out += " " + name;
    if (!plan.messages.empty()) out += " " + plan.messages;
    return plan.target.empty() ? out : out + " -> " + plan.target;
  } catch (const Error& error) {
    return "refused, " + std::to_string(static_cast<int>(error.code()));
  }
}

TEST(RowsPlanTest, KindsAreFoundByFields) {
  EXPECT_EQ(plan_of(R"({"messages": [{"role": "user", "content": "a"},)"
                    R"( {"role": "assistant", "content": "b"}]})"),
            "chat: messages");
  EXPECT_EQ(
      plan_of(R"({"dialog": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})"),
      "chat: dialog");
  EXPECT_EQ(plan_of(R"({"instruction": "a", "input": "", "output": "b"})"),
            "pair: instruction input -> output");
  EXPECT_EQ(plan_of(R"({"question": "a", "answer": "b", "id": 1})"), "pair: question -> answer");
  EXPECT_EQ(plan_of(R"({"sentence": "a b c", "label": 1})"), "label: sentence -> label");
  EXPECT_EQ(plan_of(R"({"story": "a b c", "note": "d"})"), "text: story");
  EXPECT_EQ(plan_of(R"({"unusual": "some words of a text"})"), "text: unusual");
  EXPECT_EQ(plan_of(R"({"tokens": ["a"], "ner_tags": [0]})"), "tagged: tokens -> ner_tags");
}

TEST(RowsPlanTest, WishesDecideAndMustFit) {
  const std::string labelled = R"({"text": "a b c", "label": "x", "other": "y"})";
  EXPECT_EQ(plan_of(labelled, {.as = "text"}), "text: text");
  EXPECT_EQ(plan_of(labelled, {.target = "other"}), "label: text -> other");
  EXPECT_EQ(plan_of(labelled, {.as = "chat"}), "refused, 2");
  const std::string pairs = R"({"prompt": "a", "chosen": "b c d", "rejected": "c"})";
  EXPECT_EQ(plan_of(pairs), "preference: chosen rejected");
  EXPECT_EQ(plan_of(R"({"chosen": 1, "rejected": 2})"), "refused, 3");
  const std::string labelled_answers = R"({"prompt": "a", "completion": "b c", "label": true})";
  EXPECT_EQ(plan_of(labelled_answers), "refused, 3");
  EXPECT_EQ(plan_of(labelled_answers, {.model = "folder"}), "unpaired: completion");
  EXPECT_EQ(plan_of(labelled_answers, {.as = "chat"}), "pair: prompt -> completion");
  EXPECT_EQ(plan_of(pairs, {.as = "chat"}), "pair: prompt -> chosen");
  EXPECT_EQ(plan_of(pairs, {.as = "text"}), "text: chosen");
}

TEST(RowsPlanTest, RowsAreLookedAtAllOverTheFile) {
  const TempFolder work;
  std::string file;
  for (int i = 0; i < 20000; ++i) {
    file += i < 10000 ? "{\"a\": 1}\n" : "{\"a\": 1, \"late\": 2}\n";
  }
  const SniffedRows rows = sniff_rows(work.write("t.jsonl", file));
  EXPECT_EQ(rows.rows, 20000);
  EXPECT_GT(rows.looked_at, 900);
  EXPECT_LT(rows.looked_at, 1200);
  ASSERT_NE(rows.find("late"), nullptr);
  EXPECT_GT(rows.find("late")->rows, 400);
}

TEST(RowsPlanTest, FieldTextsAreFoundAtAnyDepth) {
  const TempFolder work;
  std::vector<std::string> texts;
  append_field_texts(
      work.write("t.jsonl", R"({"m": [{"content": "a"}, {"content": ["b", "c"]}], "content": "d"})"
                            "\n"),
      {"content"}, texts);
  EXPECT_EQ(texts, (std::vector<std::string>{"a", "b", "c", "d"}));
  texts.clear();
  append_field_texts(work.write("t.csv", "x;y\n1;a\n2;b\n"), {"y"}, texts);
  EXPECT_EQ(texts, (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace accel::rows_plan_test
