#include "track/record.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::record_diff_test {
namespace {

constexpr auto kStep1 =
    R"({"step":1,"epoch":0,"samples":8,"loss":2.5,"loss_bits":"4004","grad_norm":1.5,"lr":0.1,"ids":"ab"})";
constexpr auto kStep2 =
    R"({"step":2,"epoch":0,"samples":16,"loss":null,"loss_bits":"7ff8","lr":0.1,"ids":"cd"})";
constexpr auto kEval = R"({"step":2,"eval":{"eval/accuracy":0.5,"eval/loss":1.25}})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

class RecordDiffTest : public testing::Test {
 protected:
  std::string written(const std::string& name, const std::vector<std::string>& lines) const {
    std::string text;
    for (const std::string& line : lines) text += line + '\n';
    return folder_.write(name, text);
  }

  std::string difference(const std::vector<std::string>& a,
                         const std::vector<std::string>& b) const {
    return first_difference(written("a", a), written("b", b)).value_or("none");
  }

  TempFolder folder_;
};

TEST_F(RecordDiffTest, EventsSpeedsAndTornLinesAreNotCompared) {
  EXPECT_EQ(difference({kStep1, kStep2, kEval},
                       {R"({"step":0,"event":"start","text":"","time":"now"})", kStep1,
                        R"({"step":1,"log":{"train/samples_per_second":3}})", kStep2, kEval,
                        R"({"step":3,"epo)"}),
            "none");
  EXPECT_EQ(difference({}, {}), "none");
}

TEST_F(RecordDiffTest, NamesTheFirstCause) {
  struct Case {
    std::string line, from, to, expected;
  };
  for (const auto& [line, from, to, expected] : std::vector<Case>{
           {kStep1, "2.5", "2.25", "step 1: loss is 2.5 and 2.25"},
           {kStep1, "4004", "4005", "step 1: loss, in bits, is \"4004\" and \"4005\""},
           {kStep1, "\"grad_norm\":1.5,", "", "step 1: grad_norm is 1.5 and missing"},
           {kStep1, "\"ab\"", "\"ac\"", "step 1: the digest of the samples is \"ab\" and \"ac\""},
           {kStep1, "\"epoch\":0", "\"epoch\":1", "step 1: epoch is 0 and 1"},
           {kStep1, "\"step\":1", "\"step\":3", "step 1 against step 3"},
           {kEval, "0.5", "0.75", "step 2: eval/accuracy is 0.5 and 0.75"},
           {kEval, "\"eval/loss\":1.25", "\"eval/f1\":1", "step 2: eval/loss is 1.25 and missing"},
           {kEval, "1.25", "1.25,\"eval/f1\":1", "step 2: the sets of values differ"}}) {
    EXPECT_EQ(difference({line}, {replaced(line, from, to)}), expected);
  }
  // Other samples make another loss: the samples are named.
  EXPECT_EQ(difference({kStep1}, {replaced(replaced(kStep1, "ab", "ac"), "2.5", "3")}),
            "step 1: the digest of the samples is \"ab\" and \"ac\"");
}

TEST_F(RecordDiffTest, OneThatEndsEarlierDiffers) {
  EXPECT_EQ(difference({kStep1, kStep2}, {kStep1}), "step 2 and later are only in the first");
  EXPECT_EQ(difference({kStep1}, {kStep1, kStep2}), "step 2 and later are only in the second");
  EXPECT_EQ(difference({kStep1, kEval}, {kStep1, kStep2}),
            "step 2: an evaluation is only in the first");
  EXPECT_THROW(first_difference(folder_.path("none"), folder_.path("none")), IoError);
}

}  // namespace
}  // namespace accel::record_diff_test
