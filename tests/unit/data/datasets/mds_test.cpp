// Folders of MosaicML's shards as streaming writes them: see tests/interop/make_golden_mds.py.
#include "formats/records/mds.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "core/base/digest.h"
#include "data/datasets/skipped_samples.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::mds_test {
namespace {

namespace fs = std::filesystem;

const std::string kFolder =
    std::string(std::getenv("ACCEL_SOURCE_DIR") ? std::getenv("ACCEL_SOURCE_DIR") : ".") +
    "/tests/unit/data/golden/mds/";

class MdsTest : public testing::Test {
 protected:
  MdsTest() {
    folder_.write("tokenizer.json", kSmallTokenizer);
    fs::copy(kFolder + "plain", folder_.path("copy"));
  }

  std::shared_ptr<Dataset> open(const std::string& path, const std::string& options) const {
    testing::internal::CaptureStderr();
    std::shared_ptr<Dataset> data;
    const std::string reported = complaint([&] {
      data = build<Dataset>("{type: mds, path: " + path + ", tokenizer: " +
                            folder_.path("tokenizer.json") + ", " + options + "}");
    });
    testing::internal::GetCapturedStderr();
    if (!reported.empty()) throw DataError(reported);
    return data;
  }
  std::string refusal(const std::string& options = "target: label") const {
    return complaint([&] { open(folder_.path("copy"), options); });
  }
  /// The copy's file with `from` at `at` bytes replaced.
  void change(const std::string& name, size_t at, const std::string& to) const {
    std::string content = file_content(folder_.path("copy/" + name));
    folder_.write("copy/" + name, content.replace(at, to.size(), to));
  }

  TempFolder folder_;
};

TEST_F(MdsTest, SamplesAreTextsAndLabelsHoweverTheyAreCompressed) {
  for (const char* name : {"plain", "zstd", "gzip"}) {
    const auto data = open(kFolder + name, "target: label");
    ASSERT_EQ(data->size(), 8) << name;
    std::string tokens, labels;
    for (int64_t i = 0; i < 8; ++i) {
      const Sample sample = data->sample(i);
      for (const int64_t token : sample.input.as<int64_t>())
        tokens += static_cast<char>('0' + token);
      labels += std::to_string(sample.target.as<int64_t>()[0]);
    }
    EXPECT_EQ(tokens,
              "2573"
              "2673"
              "253"
              "263"
              "27553"
              "26673"
              "25773"
              "263")
        << name;
    EXPECT_EQ(labels, "10101010") << name;
  }
}

TEST_F(MdsTest, NumbersAreThoseThatWereWritten) {
  const std::pair<const char*, std::vector<float>> columns[] = {
      {"score", {0, 0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f}},
      {"wide", {0, 0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f}},
      {"tiny", {0, 1, 2, 3, 4, 5, 6, 7}},
      {"told", {0, -1, -2, -3, -4, -5, -6, -7}},
  };
  for (const auto& [name, wanted] : columns) {
    const auto data = open(kFolder + "zstd", std::string("target_type: number, target: ") + name);
    for (int64_t i = 0; i < 8; ++i) {
      EXPECT_FLOAT_EQ(data->sample(i).target.as<float>()[0], wanted[static_cast<size_t>(i)])
          << name;
    }
  }
}

TEST_F(MdsTest, AnUnpackedShardIsPreferred) {
  fs::copy(kFolder + "zstd", folder_.path("both"));
  for (const char* name : {"shard.00000.mds", "shard.00001.mds"}) {
    fs::copy(kFolder + "plain/" + name, folder_.path("both"));
    fs::remove(folder_.path("both/") + name + ".zstd");
  }
  // Another index has another header in its shards: the sizes differ.
  EXPECT_EQ(complaint([&] { open(folder_.path("both"), "target: label"); }),
            "'" + folder_.path("both/shard.00000.mds") + "' does not match its entry in the index");
}

TEST_F(MdsTest, WhatIsWrongWithColumnsIsTold) {
  const std::string shard = "'" + folder_.path("copy/shard.00000.mds") + "'";
  EXPECT_EQ(refusal("text: review"),
            shard +
                " has no column 'review'\nit has the columns 'label', 'more', 'raw', 'score', "
                "'text', 'tiny', 'told', 'wide'");
  for (const char* column : {"raw", "more"}) {
    EXPECT_EQ(refusal(std::string("text: ") + column),
              shard + ": column '" + column + "' has the encoding '" +
                  (column == std::string("raw") ? "bytes" : "json") +
                  "', a string or number wanted");
  }
}

TEST_F(MdsTest, ABadSampleIsOneOfMany) {
  // The end of sample 1 stands behind the number of samples and two offsets.
  change("shard.00000.mds", 12, std::string(4, '\0'));
  const std::string place = folder_.path("copy/shard.00000.mds sample 1");
  EXPECT_EQ(refusal(), place + ": it is outside the shard");
  const auto data = open(folder_.path("copy"), "target: label, on_bad_sample: skip(2)");
  EXPECT_EQ(data->size(), 6);  // sample 2 now begins where it must not
  EXPECT_EQ(left_out(*data), 2);
}

TEST_F(MdsTest, ASampleEndsWithItsLastColumn) {
  const std::string content = file_content(folder_.path("copy/shard.00000.mds"));
  // The fourth size of sample 0 is that of 'told', a text of one byte.
  uint32_t begin = 0;
  std::memcpy(&begin, content.data() + sizeof(uint32_t), sizeof begin);
  const size_t at = begin + 3 * sizeof(uint32_t);
  ASSERT_EQ(content[at], 1);
  change("shard.00000.mds", at, std::string(1, '\0'));
  EXPECT_EQ(refusal(),
            folder_.path("copy/shard.00000.mds sample 0") + ": 1 bytes after the last column");
}

TEST_F(MdsTest, ATextMustBeUtf8) {
  const std::string content = file_content(folder_.path("copy/shard.00000.mds"));
  change("shard.00000.mds", content.find("good film"), "\xff");
  EXPECT_EQ(refusal(),
            folder_.path("copy/shard.00000.mds sample 0") + ": column 'text' is not UTF-8");
}

TEST_F(MdsTest, DamagedShardsAreRefused) {
  fs::copy(kFolder + "zstd", folder_.path("torn"));
  const std::string path = folder_.path("torn/shard.00000.mds.zstd");
  const std::string whole = file_content(path);
  folder_.write("torn/shard.00000.mds.zstd", whole.substr(0, whole.size() / 2));
  EXPECT_EQ(complaint([&] { open(folder_.path("torn"), "target: label, on_bad_sample: skip(9)"); }),
            "'" + path + "' is damaged: Src size is incorrect");
  for (const size_t size : {0u, 4u, 100u}) {
    const std::string shard = file_content(kFolder + "plain/shard.00000.mds");
    folder_.write("copy/shard.00000.mds", shard.substr(0, size));
    EXPECT_EQ(
        refusal("target: label, on_bad_sample: skip(9)"),
        "'" + folder_.path("copy/shard.00000.mds") + "' does not match its entry in the index");
  }
}

struct IndexCase {
  const char* from;
  const char* to;
  const char* reported;
};

const IndexCase kIndexes[] = {
    {"\"shards\"", "\"sharps\"", "a field is missing or has another type"},
    {"\"format\": \"mds\"", "\"format\": \"csv\"", "a shard is not of format 'mds', version 2"},
    {"shard.00001.mds", "../../../../x.m", "a shard is outside the folder"},
    {"\"column_sizes\": [8", "\"column_sizes\": [4",
     "the size of column 'label' does not match its encoding"},
    {"\"column_sizes\": [8,", "\"column_sizes\": [", "the columns of a shard do not match"},
    {"\"bytes\": ", "\"bytes\": 9999999", "a shard has more than 1 GiB"},
    {"\"bytes\": ", "\"bytes\": 9999999999999999999999", "'bytes' is not a count"},
    {"\"samples\": ", "\"samples\": -", "'samples' is not a count"},
    {"\"column_sizes\": [8", "\"column_sizes\": [8.5", "the size of column 'label' is not a count"},
};

TEST_F(MdsTest, AnIndexThatIsNoneIsRefused) {
  const std::string whole = file_content(kFolder + "plain/index.json");
  for (const IndexCase& test : kIndexes) {
    std::string changed = whole;
    ASSERT_NE(changed.find(test.from), changed.npos) << test.from;
    changed.replace(changed.find(test.from), std::string(test.from).size(), test.to);
    EXPECT_EQ(complaint([&] { read_mds_index(changed, "index.json"); }),
              std::string("'index.json' is not an MDS index: ") + test.reported);
  }
  std::string brotli = file_content(kFolder + "zstd/index.json");
  fs::create_directories(folder_.path("brotli"));
  for (size_t at; (at = brotli.find("zstd\"")) != brotli.npos;) brotli.replace(at, 5, "br\"");
  folder_.write("brotli/index.json", brotli);
  EXPECT_EQ(complaint([&] { open(folder_.path("brotli"), "target: label"); }),
            "'" + folder_.path("brotli/shard.00000.mds.br") +
                "' is compressed by 'br', which is not supported\n"
                "decompress 'shard.00000.mds' into the same folder, for 'br' with 'brotli -d', or "
                "write the shards with 'zstd', 'gz' or no compression");
}

/// Of the file that is read, packed or not; algorithms that are not known do not matter.
TEST_F(MdsTest, ChecksumsOfTheIndexAreChecked) {
  for (const std::string name : {"plain", "zstd"}) {
    fs::copy(kFolder + name, folder_.path(name));
    const bool packed = name == "zstd";
    const std::string shard = std::string("shard.00000.mds") + (packed ? ".zstd" : "");
    const std::string hash = *named_digest("xxh64", file_content(kFolder + name + "/" + shard));
    const std::string index = file_content(kFolder + name + "/index.json");
    const auto with = [&](const std::string& hashes) {
      std::string changed = index;
      const size_t at = changed.find("\"hashes\": {}", changed.find("\"" + shard + "\""));
      folder_.write(name + "/index.json", changed.replace(at, 12, "\"hashes\": {" + hashes + "}"));
    };
    with("\"blake2b\": \"00\", \"xxh64\": \"" + hash + "\"");
    EXPECT_EQ(open(folder_.path(name), "target: label")->size(), 8);
    with("\"xxh64\": \"0123456789abcdef\"");
    EXPECT_EQ(complaint([&] { open(folder_.path(name), "target: label"); }),
              "'" + folder_.path(name + "/" + shard) + "' does not match the index: its xxh64 is " +
                  hash +
                  ", not 0123456789abcdef\n"
                  "copy the file again");
  }
}

}  // namespace
}  // namespace accel::mds_test
