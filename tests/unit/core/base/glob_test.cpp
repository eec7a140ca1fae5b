#include "core/base/glob.h"

#include <gtest/gtest.h>

namespace accel::glob_test {
namespace {

struct GlobCase {
  const char* pattern;
  const char* path;
  bool matches;
};

constexpr GlobCase kGlobCases[] = {
    {"data/train-*", "data/train-00000-of-00001.parquet", true},
    {"data/train-*", "data/x/train-0", false},
    {"*", "a", true},
    {"*", "a/b", false},
    {"**", "a", true},
    {"**", "a/b/c", true},
    {"**/*.csv", "a.csv", true},
    {"**/*.csv", "a/b/c.csv", true},
    {"**/*.csv", "a/b/c.tsv", false},
    {"a/**/b", "a/b", true},
    {"a/**/b", "a/x/y/b", true},
    {"a/**/b", "a/x/c", false},
    {"a?.[cd]sv", "a1.csv", true},
    {"a?.[!cd]sv", "a1.csv", false},
    {"a", "a/b", false},
    {"a/b", "a", false},
    {"", "a", false},
};

TEST(GlobTest, PathStarsStopAtFolders) {
  for (const GlobCase& item : kGlobCases) {
    EXPECT_EQ(path_matches(item.pattern, item.path), item.matches)
        << item.pattern << " " << item.path;
  }
}

struct NameCase {
  const char* pattern;
  const char* name;
  bool matches;
};

TEST(GlobTest, AStarSpansDotsAndAQuestionMarkIsOneCharacter) {
  const NameCase cases[] = {
      {"*.bias", "h.0.ln.bias", true},  {"*.bias", "h.0.ln.weight", false},
      {"h.*", "h.0.ln.bias", true},     {"h.?.ln.*", "h.3.ln.weight", true},
      {"h.?.*", "h.10.ln.bias", false}, {"h", "h.0", false},
      {"*", "anything", true},
  };
  for (const NameCase& item : cases) {
    EXPECT_EQ(name_matches(item.pattern, item.name), item.matches)
        << item.pattern << " on " << item.name;
  }
}

TEST(GlobTest, ManyStarsTakeLinearTime) {
  std::string pattern, path;
  for (int i = 0; i < 40; ++i) {
    pattern += "**/";
    path += "a/";
  }
  EXPECT_FALSE(path_matches(pattern + "b", path + "c"));
}

}  // namespace
}  // namespace accel::glob_test
