// Prompts with the columns of their rows.
#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "core/api/prompt_rows.h"
#include "core/api/targets.h"
#include "core/base/error.h"
#include "data/loader/mixture.h"
#include "data/loader/selected_samples.h"
#include "data/loader/source_sample.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/refusal.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"
#include "text/tokenizer.h"

namespace accel::prompts_test {
namespace {

constexpr auto kTemplate =
    "{% for m in messages %}{{ '[CLS] ' if m.role == 'user' else '[MASK] ' }}{{ m.content }} [SEP] "
    "{% endfor %}{% if add_generation_prompt %}{{ '[MASK] ' }}{% endif %}";

class PromptsTest : public testing::Test {
 protected:
  std::unique_ptr<Dataset> dataset(const std::string& content, const std::string& more = "") {
    folder_.write("t.jsonl", content);
    folder_.write("tokenizer.json", kSmallTokenizer);
    folder_.write("chat_template.jinja", kTemplate);
    return build<Dataset>("{type: prompts, path: " + folder_.path("t.jsonl") + ", tokenizer: " +
                          folder_.path("tokenizer.json") + (more.empty() ? "" : ", ") + more + "}");
  }
  std::string refusal(const std::string& row, const std::string& more = "") {
    return refusal_in(folder_, [&] { dataset(row + "\n", more); });
  }
  std::string words(const Dataset& data, int64_t index = 0) {
    const auto tokenizer = load_tokenizer(folder_.path("tokenizer.json"));
    std::string out;
    const Sample sample = data.sample(index);
    for (const int64_t id : sample.input.as<int64_t>()) {
      out += (out.empty() ? "" : " ") + std::string(tokenizer->token(static_cast<int32_t>(id)));
    }
    return out;
  }

  TempFolder folder_;
};

TEST_F(PromptsTest, MessagesEndWithTheGenerationPrompt) {
  const auto data =
      dataset(R"({"prompt": [{"role": "user", "content": "good film"}], "answer": 5})");
  EXPECT_EQ(words(*data), "[CLS] good film [SEP] [MASK]");
  const auto& rows = dynamic_cast<const PromptRows&>(*data);
  EXPECT_EQ(rows.prompt_row(0).prompt, "[CLS] good film [SEP] [MASK] ");
  EXPECT_TRUE(has_prompts(data->shape()));
}

TEST_F(PromptsTest, TextsHaveNoEndTokenAndNoTargets) {
  const auto data = dataset(R"({"prompt": "good film"})");
  EXPECT_EQ(words(*data), "[CLS] good film");
  const Sample sample = data->sample(0);
  for (const int64_t target : sample.target.as<int64_t>()) EXPECT_EQ(target, kIgnoredTarget);
  EXPECT_EQ(words(*dataset(R"({"q": "good film"})", "prompt: q, texts_as_messages: true")),
            "[CLS] good film [SEP] [MASK]");
}

TEST_F(PromptsTest, ColumnsAreTextsOrJson) {
  const auto data = dataset(
      R"({"prompt": "good film", "answer": "yes", "n": 5, "list": [1, "a"], "none": null})");
  const PromptRow row = dynamic_cast<const PromptRows&>(*data).prompt_row(0);
  EXPECT_EQ(row.columns,
            (std::map<std::string, std::string>{
                {"prompt", "good film"}, {"answer", "yes"}, {"n", "5"}, {"list", R"([1,"a"])"}}));
  EXPECT_EQ(row.place, "sample 0 of " + folder_.path("t.jsonl"));
}

TEST_F(PromptsTest, APromptMustLeaveRoomForACompletion) {
  EXPECT_EQ(refusal(R"({"prompt": "good film good film"})", "max_length: 5"),
            "t.jsonl:1: has a prompt of 5 tokens, which leaves none of the 5 tokens of "
            "'max_length' for a completion");
  EXPECT_EQ(refusal(R"({"q": "good film"})"), "t.jsonl:1: has no prompt in the field 'prompt'");
}

TEST_F(PromptsTest, RowsAreFoundInSelectedAndCombinedData) {
  const std::shared_ptr<const Dataset> data = dataset(
      "{\"prompt\": \"good film\", \"a\": 0}\n{\"prompt\": \"good film\", \"a\": 1}\n"
      "{\"prompt\": \"good film\", \"a\": 2}\n");
  const auto some = select_samples(data, {1, 2});
  EXPECT_EQ(prompt_row_of(*some, 0).columns.at("a"), "1");
  const auto both = combine({{some, {}}, {data, {}}});
  EXPECT_EQ(prompt_row_of(*both, 1).columns.at("a"), "2");
  EXPECT_EQ(prompt_row_of(*both, 2).columns.at("a"), "0");
}

}  // namespace
}  // namespace accel::prompts_test
