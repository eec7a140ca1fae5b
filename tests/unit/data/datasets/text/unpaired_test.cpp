// Answers with a label as samples: one sequence, the loss on its completion.
#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "core/api/sequence_pairs.h"
#include "core/base/error.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/refusal.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"
#include "text/tokenizer.h"

namespace accel::unpaired_test {
namespace {

constexpr auto kTemplate =
    "{% for m in messages %}{{ '[CLS] ' if m.role == 'user' else '[MASK] ' }}{{ m.content }} [SEP] "
    "{% endfor %}{% if add_generation_prompt %}{{ '[MASK] ' }}{% endif %}";

using Numbers = std::vector<int64_t>;

Numbers numbers_of(const Array& array) {
  const auto values = array.as<int64_t>();
  return {values.begin(), values.end()};
}

class UnpairedTest : public testing::Test {
 protected:
  std::unique_ptr<Dataset> dataset(const std::string& content, const std::string& more = "") {
    folder_.write("t.jsonl", content);
    folder_.write("tokenizer.json", kSmallTokenizer);
    folder_.write("chat_template.jinja", kTemplate);
    return build<Dataset>("{type: unpaired, path: " + folder_.path("t.jsonl") + ", tokenizer: " +
                          folder_.path("tokenizer.json") + (more.empty() ? "" : ", ") + more + "}");
  }
  std::string refusal(const std::string& row, const std::string& more = "") {
    return refusal_in(folder_, [&] { dataset(row + "\n", more); });
  }
  std::string hint(const std::string& row) {
    try {
      dataset(row + "\n");
    } catch (const Error& error) {
      return error.hint();
    }
    return "";
  }
  /// Tokens; those of the answer, which have a target in front, in parentheses.
  std::string words(const Dataset& data, int64_t index = 0) {
    const auto tokenizer = load_tokenizer(folder_.path("tokenizer.json"));
    const Sample sample = data.sample(index);
    const Numbers ids = numbers_of(sample.input), targets = numbers_of(sample.target);
    std::string out;
    for (size_t i = 0; i < ids.size(); ++i) {
      const bool learnt = i > 0 && targets[i - 1] == ids[i];
      const std::string token(tokenizer->token(static_cast<int32_t>(ids[i])));
      out += (i == 0 ? "" : " ") + (learnt ? "(" + token + ")" : token);
    }
    return out;
  }

  TempFolder folder_;
};

constexpr auto kTexts = R"({"prompt": "film", "completion": " good", "label": true})";

TEST_F(UnpairedTest, TextsHaveTargetsInTheCompletion) {
  EXPECT_EQ(words(*dataset(kTexts)), "[CLS] film (good) ([SEP])");
}

TEST_F(UnpairedTest, MessagesAndConversationsAreRendered) {
  const auto wanted = "[CLS] film [SEP] [MASK] (bad) (film) ([SEP])";
  const std::string answer = R"("completion": [{"role": "assistant", "content": "bad film"}])";
  EXPECT_EQ(words(*dataset(R"({"prompt": [{"role": "user", "content": "film"}], )" + answer +
                           R"(, "label": false})")),
            wanted);
  EXPECT_EQ(words(*dataset(R"({"prompt": "film", )" + answer + R"(, "label": false})")), wanted);
  EXPECT_EQ(words(*dataset(R"({"prompt": "film", "completion": "bad film", "label": 0})",
                           "texts_as_messages: true")),
            wanted);
  EXPECT_EQ(words(*dataset(R"({"conversations": [{"from": "human", "value": "film"}, )"
                           R"({"from": "gpt", "value": "bad film"}], "kto_tag": true})",
                           "messages: conversations, label: kto_tag, role_key: from, content_key: "
                           "value, roles: {human: user, gpt: assistant}")),
            wanted);
}

TEST_F(UnpairedTest, TheSegmentsAreTheLabel) {
  const auto data = dataset(std::string(kTexts) + "\n" +
                            R"({"prompt": "film", "completion": " bad", "label": 0})");
  EXPECT_EQ(numbers_of(data->sample(0).segments), Numbers({1, 1, 1, 1}));
  EXPECT_EQ(numbers_of(data->sample(1).segments), Numbers({0, 0, 0, 0}));
  EXPECT_TRUE(has_labelled_sequences(data->shape()));
  EXPECT_FALSE(has_sequence_pairs(data->shape()));
}

TEST_F(UnpairedTest, TheEndOfALongAnswerIsCut) {
  EXPECT_EQ(words(*dataset(kTexts, "max_length: 3")), "[CLS] film (good)");
  EXPECT_EQ(refusal(kTexts, "max_length: 2"),
            "t.jsonl:1: no token of an answer is within 2 tokens, which is 'max_length'; the "
            "prompt has 2");
}

TEST_F(UnpairedTest, RowsWithoutAFieldAreRefused) {
  const auto unlabelled = R"({"prompt": "film", "completion": " good", "liked": "yes"})";
  EXPECT_EQ(refusal(unlabelled),
            "t.jsonl:1: has no label in the field 'label': true for a desirable answer, false for "
            "another");
  EXPECT_EQ(hint(unlabelled),
            "it has the fields 'prompt', 'completion', 'liked': name it with 'label'");
  const auto unasked = R"({"completion": " good", "label": true})";
  EXPECT_EQ(refusal(unasked), "t.jsonl:1: has no prompt in the field 'prompt'");
  EXPECT_EQ(hint(unasked), "it has the fields 'completion', 'label': name it with 'prompt'");
  const auto unanswered = R"({"prompt": "film", "label": true})";
  EXPECT_EQ(refusal(unanswered),
            "t.jsonl:1: has no text or list of messages in the field 'completion'");
  EXPECT_EQ(hint(unanswered),
            "it has the fields 'prompt', 'label': name them with 'prompt', 'completion' and "
            "'label'");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "user", "content": "film"}], "label": 1})"),
            "t.jsonl:1: has no answer: the last message of 'messages' is not the assistant's");
}

TEST_F(UnpairedTest, LabelsChangeTheFingerprint) {
  const auto print = [&](const char* label) {
    return dataset(std::string(R"({"prompt": "film", "completion": " good", "label": )") + label +
                   "}")
        ->fingerprint();
  };
  EXPECT_NE(print("true"), print("false"));
}

}  // namespace
}  // namespace accel::unpaired_test
