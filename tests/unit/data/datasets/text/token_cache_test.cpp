// Tokens kept between runs.
#include "data/datasets/text/token_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "data/datasets/text/text_columns.h"
#include "tests/unit/data/word_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::token_cache_test {
namespace {

namespace fs = std::filesystem;

TokenSequences two_sequences(bool segments, int32_t first = 7) {
  TokenSequencesBuilder builder;
  const int32_t a[] = {first, 8, 9}, b[] = {4};
  const int32_t kinds[] = {0, 1, 1};
  builder.add(a, segments ? std::span<const int32_t>(kinds) : std::span<const int32_t>());
  builder.add(b, segments ? std::span<const int32_t>(kinds, 1) : std::span<const int32_t>());
  return std::move(builder).finish();
}

std::string text_of(const TokenSequences& sequences) {
  std::string text;
  for (int64_t i = 0; i < sequences.size(); ++i) {
    const Sample sample = sequences.sample(i);
    for (const int64_t token : sample.input.as<int64_t>()) text += std::to_string(token) + " ";
    if (sample.segments.empty()) continue;
    for (const int64_t kind : sample.segments.as<int64_t>()) text += "/" + std::to_string(kind);
  }
  return text;
}

class TokenCacheTest : public testing::Test {
 protected:
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TempFolder folder_;
  const std::string path_ = folder_.path("kept");
  const TokenCache cache_{path_};
};

TEST_F(TokenCacheTest, WhatIsKeptIsFoundAgain) {
  for (const bool segments : {false, true}) {
    const std::string key = segments ? "b" : "a";
    EXPECT_FALSE(cache_.find(key));
    const TokenSequences kept = cache_.keep(key, two_sequences(segments));
    EXPECT_EQ(text_of(kept), text_of(two_sequences(segments)));
    const auto found = TokenCache(path_).find(key);
    ASSERT_TRUE(found);
    EXPECT_EQ(text_of(*found), text_of(two_sequences(segments)));
  }
  EXPECT_EQ(files(), (std::vector<std::string>{"a.tokens", "b.tokens"}));
}

TEST_F(TokenCacheTest, EveryUseIsPrinted) {
  const auto printed = [](const TokenCache& cache, const std::string& key, bool keep) {
    testing::internal::CaptureStdout();
    if (keep) {
      cache.keep(key, two_sequences(false));
    } else {
      cache.find(key);
    }
    return testing::internal::GetCapturedStdout();
  };
  const std::string a = path_ + "/a.tokens", b = path_ + "/b.tokens";
  const TokenCache small(path_, two_sequences(false).bytes() + 64);
  EXPECT_EQ(printed(small, "a", false), "");
  EXPECT_EQ(printed(small, "a", true), "tokens: cached in " + a + ", 1 MiB\n");
  EXPECT_EQ(printed(small, "a", false), "tokens: read from the cache " + a + "\n");
  EXPECT_EQ(printed(small, "b", true),
            "tokens: removed " + a + "\ntokens: cached in " + b + ", 1 MiB\n");
}

TEST_F(TokenCacheTest, DamagedFilesAreRemovedAndToldOf) {
  cache_.keep("a", two_sequences(true));
  const std::string path = path_ + "/a.tokens";
  const std::string whole = file_content(path);
  std::vector<std::string> damaged = {"", whole.substr(0, 63), whole.substr(0, whole.size() - 1),
                                      whole + "x"};
  for (size_t at = 0; at < whole.size(); ++at) {
    if (at >= 40 && at < 64) continue;  // not used
    damaged.push_back(whole);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 0x40);
  }
  for (const std::string& bytes : damaged) {
    std::ofstream(path, std::ios::binary) << bytes;
    testing::internal::CaptureStderr();
    EXPECT_FALSE(cache_.find("a"));
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "warning: the cached tokens in '" + path + "' are damaged; tokenizing again\n");
    EXPECT_FALSE(fs::exists(path));
  }
}

TEST_F(TokenCacheTest, WhatWasNotUsedForLongestMakesRoom) {
  const int64_t one = two_sequences(false).bytes() + 64;
  const TokenCache cache(path_, 2 * one);
  cache.keep("a", two_sequences(false));
  cache.keep("b", two_sequences(false));
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(path_ + "/b.tokens", now - std::chrono::hours(2));
  fs::last_write_time(path_ + "/a.tokens", now - std::chrono::hours(3));
  EXPECT_TRUE(cache.find("a"));  // now the newer one
  cache.keep("c", two_sequences(false));
  EXPECT_EQ(files(), (std::vector<std::string>{"a.tokens", "c.tokens"}));
}

TEST_F(TokenCacheTest, WhatNeverFitsIsNotKept) {
  EXPECT_EQ(text_of(TokenCache(path_, 80).keep("a", two_sequences(false))), "7 8 9 4 ");
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(TokenCacheTest, AFolderThatCannotBeMadeIsToldOf) {
  folder_.write("kept", "a file");
  testing::internal::CaptureStderr();
  EXPECT_EQ(text_of(cache_.keep("a", two_sequences(false))), "7 8 9 4 ");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: cannot cache the tokens in '" + path_ + "'; the next run tokenizes again\n");
}

TEST_F(TokenCacheTest, ColumnsOfLargeFilesAreKept) {
  BadSamples bad({}, "t");
  TextColumnOptions options;
  options.text = {"a"};
  options.cache.value = FilePath{path_};
  const std::string content(4 << 20, 'x');
  const auto open = [&](const std::string& of, const std::string& reading) {
    TextColumns texts(options, std::make_shared<WordTokenizer>(), {bytes_of(of)}, reading);
    texts.add({"one two", {}, "t:1"}, bad);
    texts.finish(bad);
    EXPECT_EQ(texts.size(), 1);
  };
  open(content.substr(1), "tsv");
  EXPECT_FALSE(fs::exists(path_)) << "a small file";
  open(content, "tsv");
  EXPECT_EQ(files().size(), 1u);
  open(content, "tsv");
  EXPECT_EQ(files().size(), 1u);
  open(content, "csv");
  EXPECT_EQ(files().size(), 2u);
  std::string changed = content;
  changed[1 << 20] = 'y';
  open(changed, "csv");
  EXPECT_EQ(files().size(), 3u);
  options.max_length = {5};
  open(changed, "csv");
  EXPECT_EQ(files().size(), 4u);
}

}  // namespace
}  // namespace accel::token_cache_test
