#include "core/recipe/name_pattern.h"

#include <gtest/gtest.h>

namespace accel::name_pattern_test {
namespace {

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
}  // namespace accel::name_pattern_test
