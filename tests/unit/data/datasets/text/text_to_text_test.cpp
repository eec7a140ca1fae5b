// Source and target texts of rows, each its own sequence.
#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "core/api/packed_sequences.h"
#include "core/api/row_values.h"
#include "core/api/target_sequences.h"
#include "core/api/targets.h"
#include "data/datasets/skipped_samples.h"
#include "data/loader/epoch_order.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/refusal.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::text_to_text_test {
namespace {

using Ids = std::vector<int64_t>;

constexpr auto kRows =
    "{\"source\": \"good film\", \"target\": \"bad\", \"kind\": \"a\"}\n"
    "{\"source\": \"films\", \"target\": \"good good\", \"kind\": \"b\"}\n";

class TextToTextTest : public testing::Test {
 protected:
  std::unique_ptr<Dataset> dataset(const std::string& content, const std::string& more = "",
                                   const std::string& file = "t.jsonl",
                                   const DatasetContext& context = {}) {
    folder_.write(file, content);
    folder_.write("tokenizer.json", kSmallTokenizer);
    return build<Dataset>("{type: text_to_text, path: " + folder_.path(file) +
                              ", tokenizer: " + folder_.path("tokenizer.json") +
                              (more.empty() ? "" : ", ") + more + "}",
                          context);
  }
  static Ids ids(const Array& tokens) {
    const auto values = tokens.as<int64_t>();
    return {values.begin(), values.end()};
  }

  TempFolder folder_;
};

TEST_F(TextToTextTest, ASampleIsTheTokensOfBothTexts) {
  const auto data = dataset(kRows);
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(ids(data->sample(0).input), (Ids{2, 5, 7, 3}));
  EXPECT_EQ(ids(data->sample(0).target), (Ids{2, 6, 3}));
  EXPECT_EQ(ids(data->sample(1).input), (Ids{2, 7, 8, 3}));
  EXPECT_EQ(ids(data->sample(1).target), (Ids{2, 5, 5, 3}));
  const DataShape shape = data->shape();
  EXPECT_TRUE(has_target_sequences(shape));
  EXPECT_EQ(shape.input, (Shape{1024}));
  EXPECT_EQ(shape.target, (Shape{128, 0}));
  EXPECT_EQ(shape.vocab, 9);
  EXPECT_EQ(dynamic_cast<const KnowsLengths&>(*data).length(1), 4);
}

TEST_F(TextToTextTest, SourcesHaveAPrefixAndBothAreCut) {
  const auto data =
      dataset(kRows, "source_prefix: 'bad ', max_source_length: 4, max_target_length: 3");
  EXPECT_EQ(ids(data->sample(0).input), (Ids{2, 6, 5, 3}));
  EXPECT_EQ(ids(data->sample(1).target), (Ids{2, 5, 3}));
}

TEST_F(TextToTextTest, TheExtensionNamesTheFormat) {
  const auto lines = dataset(kRows);
  const auto table =
      dataset("de,en\ngood film,bad\nfilms,good good\n", "source: de, target: en", "t.csv");
  ASSERT_EQ(table->size(), 2);
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(ids(table->sample(i).input), ids(lines->sample(i).input));
    EXPECT_EQ(ids(table->sample(i).target), ids(lines->sample(i).target));
  }
}

TEST_F(TextToTextTest, PairsThatFitArePackedWithATokenBetweenTargets) {
  const auto data = dataset(kRows, "pack: true");
  ASSERT_EQ(data->size(), 1);
  const Sample sample = data->sample(0);
  EXPECT_EQ(ids(sample.input), (Ids{2, 5, 7, 3, 2, 7, 8, 3}));
  EXPECT_EQ(ids(sample.segments), (Ids{1, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(ids(sample.target), (Ids{2, 6, 3, kIgnoredTarget, 2, 5, 5, 3}));
  EXPECT_TRUE(is_packed(data->shape()));
  EXPECT_EQ(dynamic_cast<const KnowsLengths&>(*data).length(0), 8);
  EXPECT_EQ(dataset(kRows, "pack: true, max_target_length: 8")->size(), 1);
  EXPECT_EQ(dataset(kRows, "pack: true, max_target_length: 7")->size(), 2);
  EXPECT_EQ(dataset(kRows, "pack: true, max_source_length: 7")->size(), 2);
  EXPECT_NE(data->fingerprint(), dataset(kRows)->fingerprint());
  const std::string grouped =
      refusal_in(folder_, [&] { dynamic_cast<const RowKeys&>(*data).row_keys("kind"); });
  EXPECT_EQ(grouped,
            "'group' keeps rows with one 'kind' together, but 'pack' puts several pairs into a "
            "sample");
  const auto predicted = dataset(kRows, "pack: true", "t.jsonl", {.targets = false});
  EXPECT_EQ(predicted->size(), 2);
  EXPECT_FALSE(is_packed(predicted->shape()));
}

TEST_F(TextToTextTest, PredictionsNeedNoTargets) {
  const auto data = dataset("{\"source\": \"good film\"}\n", "", "t.jsonl", {.targets = false});
  EXPECT_EQ(ids(data->sample(0).input), (Ids{2, 5, 7, 3}));
  EXPECT_EQ(ids(data->sample(0).target), (Ids{kIgnoredTarget}));
}

TEST_F(TextToTextTest, RowsWithoutATextEndTheRunOrAreSkipped) {
  const std::string bad = std::string("{\"source\": \"good\"}\n") + kRows;
  EXPECT_EQ(refusal_in(folder_, [&] { dataset(bad); }), "t.jsonl:1 has no field 'target'");
  const auto data = dataset(bad, "on_bad_sample: skip(2)");
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(left_out(*data), 1);
  EXPECT_EQ(ids(data->sample(0).target), (Ids{2, 6, 3}));
  EXPECT_EQ(refusal_in(folder_, [&] { dataset(kRows, "append_eos: true"); }),
            "'append_eos' needs an end token, and the tokenizer has none");
  const auto keys = dynamic_cast<const RowKeys&>(*data).row_keys("kind");
  ASSERT_EQ(keys.size(), 2U);
  EXPECT_NE(keys[0], keys[1]);
  EXPECT_EQ(refusal_in(folder_, [&] { dataset(""); }), "'t.jsonl' has no lines");
}

TEST_F(TextToTextTest, WhatChangesTheTokensChangesTheFingerprint) {
  const std::string whole = dataset(kRows)->fingerprint();
  EXPECT_EQ(dataset(kRows)->fingerprint(), whole);
  for (const char* other : {"source_prefix: 'bad '", "max_source_length: 3", "max_target_length: 3",
                            "source: target, target: source"}) {
    EXPECT_NE(dataset(kRows, other)->fingerprint(), whole) << other;
  }
}

}  // namespace
}  // namespace accel::text_to_text_test
