// Preference pairs as samples: both sequences, the loss on their completions.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "core/api/dataset.h"
#include "core/api/pair_margins.h"
#include "core/api/sequence_pairs.h"
#include "core/base/error.h"
#include "data/loader/epoch_order.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/refusal.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"
#include "text/tokenizer.h"

namespace accel::preference_test {
namespace {

/// "[CLS] good [SEP] bad film [SEP]": who speaks is given by the token in front.
constexpr auto kTemplate =
    "{% for m in messages %}{{ '[CLS] ' if m.role == 'user' else '[MASK] ' }}{{ m.content }} [SEP] "
    "{% endfor %}{% if add_generation_prompt %}{{ '[MASK] ' }}{% endif %}";

using Numbers = std::vector<int64_t>;

Numbers numbers_of(const Array& array) {
  const auto values = array.as<int64_t>();
  return {values.begin(), values.end()};
}

class PreferenceTest : public testing::Test {
 protected:
  std::unique_ptr<Dataset> dataset(const std::string& content, const std::string& more = "") {
    folder_.write("t.jsonl", content);
    folder_.write("tokenizer.json", kSmallTokenizer);
    folder_.write("chat_template.jinja", kTemplate);
    return build<Dataset>("{type: preference, path: " + folder_.path("t.jsonl") + ", tokenizer: " +
                          folder_.path("tokenizer.json") + (more.empty() ? "" : ", ") + more + "}");
  }
  Sample sample(const std::string& row, const std::string& more = "") {
    return dataset(row + "\n", more)->sample(0);
  }
  std::string refusal(const std::string& row, const std::string& more = "") {
    return refusal_in(folder_, [&] { dataset(row + "\n", more); });
  }
  std::string words(const Sample& sample) {
    const auto tokenizer = load_tokenizer(folder_.path("tokenizer.json"));
    std::string out;
    for (const int64_t id : sample.input.as<int64_t>()) {
      out += (out.empty() ? "" : " ") + tokenizer->token(static_cast<int32_t>(id));
    }
    return out;
  }

  TempFolder folder_;
};

constexpr auto kMessages = R"({"prompt": [{"role": "user", "content": "film"}],)"
                           R"( "chosen": [{"role": "assistant", "content": "good film"}],)"
                           R"( "rejected": [{"role": "assistant", "content": "bad"}]})";

TEST_F(PreferenceTest, ASampleIsBothSequencesWithTargetsInTheirCompletions) {
  const Sample both = sample(kMessages);
  EXPECT_EQ(words(both),
            "[CLS] film [SEP] [MASK] good film [SEP] [CLS] film [SEP] [MASK] bad [SEP]");
  const Numbers ids = numbers_of(both.input);
  EXPECT_EQ(numbers_of(both.segments), (Numbers{0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(numbers_of(both.target), (Numbers{-100, -100, -100, ids[4], ids[5], ids[6], -100, -100,
                                              -100, -100, ids[11], ids[12], -100}));
}

TEST_F(PreferenceTest, TheShapeIsThatOfPairs) {
  const DataShape shape = dataset(kMessages, "max_length: 16")->shape();
  EXPECT_TRUE(has_sequence_pairs(shape));
  EXPECT_EQ(shape.input, Shape{16});
}

TEST_F(PreferenceTest, AMarginIsANumberOrNone) {
  const std::string pair = R"({"prompt": "film", "chosen": "good", "rejected": "bad")";
  const auto data =
      dataset(pair + "}\n" + pair + R"(, "margin": 2})" + "\n" + pair + R"(, "margin": -0.5})" +
              "\n" + pair + R"(, "margin": null})" + "\n" + pair + R"(, "margin": "1"})" + "\n");
  const auto& margins = dynamic_cast<const PairMargins&>(*data);
  EXPECT_EQ(margins.pair_margin(0), std::nullopt);
  EXPECT_EQ(margins.pair_margin(1), 2);
  EXPECT_EQ(margins.pair_margin(2), -0.5);
  EXPECT_EQ(margins.pair_margin(3), std::nullopt);
  EXPECT_TRUE(std::isnan(margins.pair_margin(4).value()));
  const auto some = dataset("{}\n" + pair + R"(, "margin": 3})" + "\n", "on_bad_sample: skip(1)");
  EXPECT_EQ(dynamic_cast<const PairMargins&>(*some).pair_margin(0), 3);
}

TEST_F(PreferenceTest, APromptWithinTheAnswersIsTheirCommonBeginning) {
  const std::string user = R"({"role": "user", "content": "film"})";
  const Sample implicit =
      sample(R"({"chosen": [)" + user + R"(, {"role": "assistant", "content": "good film"}],)" +
             R"("rejected": [)" + user + R"(, {"role": "assistant", "content": "bad"}]})");
  const Sample explicit_prompt = sample(kMessages);
  EXPECT_EQ(numbers_of(implicit.input), numbers_of(explicit_prompt.input));
  EXPECT_EQ(numbers_of(implicit.target), numbers_of(explicit_prompt.target));
}

TEST_F(PreferenceTest, ATextBesideMessagesIsThePromptOnlyIfTheyHaveNone) {
  const Sample alone =
      sample(R"({"prompt": "film", "chosen": [{"role": "assistant", "content": "good film"}],)"
             R"( "rejected": [{"role": "assistant", "content": "bad"}]})");
  EXPECT_EQ(numbers_of(alone.input), numbers_of(sample(kMessages).input));
}

TEST_F(PreferenceTest, TextsAreCutAtTheFirstCharacterThatDiffers) {
  const Sample implicit = sample(R"({"chosen": "film good film", "rejected": "film bad"})");
  const Sample named = sample(R"({"prompt": "film", "chosen": " good film", "rejected": " bad"})");
  EXPECT_EQ(numbers_of(implicit.input), numbers_of(named.input));
  EXPECT_EQ(numbers_of(implicit.target), numbers_of(named.target));
}

TEST_F(PreferenceTest, TheFormsOfRowsArePrinted) {
  testing::internal::CaptureStdout();
  dataset(std::string(kMessages) + "\n" + kMessages + "\n" +
          R"({"chosen": "film good film", "rejected": "film bad"})");
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            folder_.path("t.jsonl") + ": 2 pairs of messages with a prompt\n" +
                folder_.path("t.jsonl") +
                ": 1 pairs of texts, whose common beginning is the prompt\n");
}

TEST_F(PreferenceTest, TextsBecomeMessagesOnRequest) {
  const Sample texts = sample(R"({"prompt": "film", "chosen": "good film", "rejected": "bad"})",
                              "texts_as_messages: true");
  EXPECT_EQ(numbers_of(texts.input), numbers_of(sample(kMessages).input));
}

TEST_F(PreferenceTest, TruncationKeepsTheStartOrTheEnd) {
  EXPECT_EQ(words(sample(kMessages, "max_length: 5")),
            "[CLS] film [SEP] [MASK] good [CLS] film [SEP] [MASK] bad");
  EXPECT_EQ(words(sample(kMessages, "max_length: 4, truncation_mode: keep_end")),
            "[MASK] good film [SEP] [SEP] [MASK] bad [SEP]");
}

TEST_F(PreferenceTest, APromptThatFillsTheLengthIsRefused) {
  EXPECT_EQ(
      refusal(kMessages, "max_length: 4"),
      "t.jsonl:1: no token of an answer is within 4 tokens, which is 'max_length'; the prompt "
      "has 4");
}

TEST_F(PreferenceTest, RowsThatAreNoPairsAreRefused) {
  EXPECT_EQ(refusal(R"({"chosen": "a"})"),
            "t.jsonl:1: has no text or list of messages in the field 'rejected'");
  EXPECT_EQ(refusal(R"({"prompt": "a", "chosen": "a", "rejected": [{"role": "a"}]})"),
            "t.jsonl:1: has messages in one of 'chosen' and 'rejected', and a text in the other");
  EXPECT_EQ(refusal(R"({"chosen": [{"role": "a", "content": "a"}], )"
                    R"("rejected": [{"role": "a", "content": "b"}]})"),
            "t.jsonl:1: has no prompt: 'chosen' and 'rejected' begin with different messages");
  EXPECT_EQ(refusal(R"({"prompt": 3, "chosen": "a", "rejected": "b"})"),
            "t.jsonl:1: has no text or list of messages in the field 'prompt'");
  EXPECT_EQ(refusal(R"({"chosen": "film a", "rejected": "film b"})", "texts_as_messages: true"),
            "t.jsonl:1: has no prompt in the field 'prompt'");
}

TEST_F(PreferenceTest, ASystemMessageComesFirst) {
  const std::string row =
      R"({"system": "good", "prompt": "film", "chosen": "good film", "rejected": "bad"})";
  EXPECT_EQ(words(sample(row, "texts_as_messages: true, system: system")),
            "[MASK] good [SEP] [CLS] film [SEP] [MASK] good film [SEP] "
            "[MASK] good [SEP] [CLS] film [SEP] [MASK] bad [SEP]");
  EXPECT_EQ(refusal(row, "system: system"),
            "t.jsonl:1: is texts, which have no place for the system message 'system'");
}

TEST_F(PreferenceTest, TheHintNamesTheFieldsOfTheRow) {
  try {
    dataset(R"({"a": 1})");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.hint(),
              "it has the fields 'a': name them with 'prompt', 'chosen' and 'rejected'");
  }
}

TEST_F(PreferenceTest, BadRowsAreSkippedOnRequest) {
  const auto some = dataset(std::string(kMessages) + "\n{}\n", "on_bad_sample: skip(1)");
  EXPECT_EQ(some->size(), 1);
}

TEST_F(PreferenceTest, OptionsThatChangeTheTokensChangeTheFingerprint) {
  const std::string base = dataset(kMessages)->fingerprint();
  EXPECT_NE(dataset(kMessages, "max_length: 5")->fingerprint(), base);
  EXPECT_NE(dataset(kMessages, "truncation_mode: keep_end")->fingerprint(), base);
  EXPECT_NE(dataset(kMessages, "texts_as_messages: true")->fingerprint(), base);
  EXPECT_EQ(dataset(kMessages)->fingerprint(), base);
}

}  // namespace
}  // namespace accel::preference_test
