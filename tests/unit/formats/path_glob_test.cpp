#include "runner/formats/path_glob.h"

#include <gtest/gtest.h>

namespace accel {
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

TEST(PathGlobTest, StarsStopAtFolders) {
  for (const GlobCase& item : kGlobCases) {
    EXPECT_EQ(path_matches(item.pattern, item.path), item.matches)
        << item.pattern << " " << item.path;
  }
}

TEST(PathGlobTest, ManyStarsTakeNoTime) {
  std::string pattern, path;
  for (int i = 0; i < 40; ++i) {
    pattern += "**/";
    path += "a/";
  }
  EXPECT_FALSE(path_matches(pattern + "b", path + "c"));
}

}  // namespace
}  // namespace accel
