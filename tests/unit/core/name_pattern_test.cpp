#include "core/name_pattern.h"

#include <gtest/gtest.h>

namespace accel {
namespace {

struct Match {
  const char* pattern;
  const char* name;
  bool matches;
};

TEST(NamePatternTest, AStarSpansDotsAndAQuestionMarkIsOneCharacter) {
  const Match cases[] = {
      {"*.bias", "h.0.ln.bias", true},  {"*.bias", "h.0.ln.weight", false},
      {"h.*", "h.0.ln.bias", true},     {"h.?.ln.*", "h.3.ln.weight", true},
      {"h.?.*", "h.10.ln.bias", false}, {"h", "h.0", false},
      {"*", "anything", true},
  };
  for (const Match& item : cases) {
    EXPECT_EQ(name_matches(item.pattern, item.name), item.matches)
        << item.pattern << " on " << item.name;
  }
}

struct Unmatched {
  const char* pattern;
  const char* hint;
};

TEST(NamePatternTest, WhatMatchesNothingIsToldWhatWould) {
  const std::vector<std::string> names = {"bert.encoder.0.weight", "bert.encoder.0.bias",
                                          "bert.pooler.weight", "classifier.weight",
                                          "classifier.bias"};
  const Unmatched cases[] = {
      {"*.bais", "did you mean '*.bias'?"},
      {"classifier.wieght", "did you mean 'classifier.weight'?"},
      {"encoder.*", "did you mean '*encoder.*'?"},
      {"transformer.*",
       "the parameters are 'bert.encoder.0.weight', 'bert.encoder.0.bias', 'bert.pooler.weight', "
       "'classifier.weight', ..."},
  };
  for (const Unmatched& item : cases) {
    const UnmatchedPattern unmatched = {item.pattern, "parameter", names};
    EXPECT_EQ(unmatched.message(), std::string("'") + item.pattern + "' matches no parameter");
    EXPECT_EQ(unmatched.hint(), item.hint);
  }
}

TEST(NamePatternTest, WhereThereAreNoNamesThereIsNoHint) {
  EXPECT_EQ((UnmatchedPattern{"*", "linear layer", {}}.hint()), "");
}

}  // namespace
}  // namespace accel
