// The datasets `mnist`, `cifar10` and `sst2`, which find what was downloaded.
#include <cstdlib>

#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/tar_writer.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/formats/zip_archive.h"

namespace accel::downloaded_sets_test {
namespace {

constexpr auto kCacheVariable = "XDG_CACHE_HOME";

/// A user whose caches are in a folder of the test's own.
class DownloadedSetsTest : public testing::Test {
 protected:
  DownloadedSetsTest() {
    for (const char* name : {kCacheVariable, "HOME"}) {
      const char* value = std::getenv(name);
      before_.push_back({name, value ? std::optional<std::string>(value) : std::nullopt});
    }
    setenv(kCacheVariable, folder_.path().c_str(), 1);
  }
  ~DownloadedSetsTest() override {
    for (const auto& [name, value] : before_) {
      value ? setenv(name, value->c_str(), 1) : unsetenv(name);
    }
  }

  /// Puts one digit, all pixels of which are `pixel`, where a download or `path` would have it.
  void put_digit(const std::string& part, char pixel, char label, const std::string& path = "",
                 bool packed = true) {
    const std::string sizes = big_endian_32(1) + big_endian_32(2) + big_endian_32(2);
    const std::string images = std::string("\0\0\x08\x03", 4) + sizes + std::string(4, pixel);
    const std::string labels = std::string("\0\0\x08\x01", 4) + big_endian_32(1) + label;
    const std::string start = (path.empty() ? "accel-run/sets/mnist" : path) + "/" + part;
    const std::string end = packed ? "-ubyte.gz" : "-ubyte";
    folder_.write(start + "-images-idx3" + end, packed ? gzip_of(images) : images);
    folder_.write(start + "-labels-idx1" + end, packed ? gzip_of(labels) : labels);
  }

  /// A batch file of `count` photographs of one class and one value.
  static std::string photographs(int count, char label, char pixel) {
    std::string out;
    for (int i = 0; i < count; ++i) out.append(1, label).append(3072, pixel);
    return out;
  }

  /// An archive with batches of 1, 2, 3, 4 and 5 photographs of the classes 0 to 4, and a test
  /// batch of one of class 9. `without`: a file that is not in it.
  static std::string archive(const std::string& without = "") {
    std::string out;
    for (int i = 5; i >= 1; --i) {
      const std::string name = "data_batch_" + std::to_string(i) + ".bin";
      const char value = static_cast<char>(i - 1);
      if (name != without) out += tar_member("c/" + name, photographs(i, value, value));
    }
    out += tar_member("c/batches.meta.txt", "airplane\n");
    if (without != "test_batch.bin") {
      out += tar_member("c/test_batch.bin", photographs(1, '\x09', '\xff'));
    }
    return gzip_of(out + tar_end());
  }

  const std::string sets_ = "accel-run/sets/";
  TempFolder folder_;

 private:
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

TEST_F(DownloadedSetsTest, MnistsSplitFollowsFromWhereItStands) {
  put_digit("train", '\x33', '\x03');
  put_digit("t10k", '\xff', '\x07');
  const auto label = [](const std::string& options, bool train) {
    const auto data = build<Dataset>("type: mnist\n" + options, {.train = train});
    return data->sample(0).target.as<int64_t>()[0];
  };
  EXPECT_EQ(label("", true), 3);
  EXPECT_EQ(label("", false), 7);
  EXPECT_EQ(label("split: test", true), 7);
  EXPECT_EQ(label("split: train", false), 3);
}

TEST_F(DownloadedSetsTest, MnistIsReadAsItsFilesAre) {
  put_digit("train", '\x33', '\x03');
  const auto data = build<Dataset>("type: mnist");
  EXPECT_EQ(data->shape().input, (Shape{1, 2, 2}));
  EXPECT_EQ(data->sample(0).input.as<float>()[3], 51.0f / 255.0f);
  EXPECT_EQ(build<Dataset>("type: mnist\nscale: false")->sample(0).input.as<float>()[3], 51.0f);
  const std::string files = folder_.path(sets_ + "mnist/train");
  EXPECT_EQ(build<Dataset>("type: idx\nimages: " + files +
                           "-images-idx3-ubyte.gz\nlabels: " + files + "-labels-idx1-ubyte.gz")
                ->fingerprint(),
            data->fingerprint());
}

TEST_F(DownloadedSetsTest, MnistCanLieElsewhereAndUnpacked) {
  put_digit("train", '\x33', '\x05', "mine", false);
  const std::string recipe = "type: mnist\npath: " + folder_.path("mine");
  EXPECT_EQ(build<Dataset>(recipe)->sample(0).target.as<int64_t>()[0], 5);
  EXPECT_EQ(complaint<Dataset>(recipe, {.train = false}),
            complaint<Dataset>("type: idx\nimages: " +
                               folder_.path("mine/t10k-images-idx3-ubyte.gz") + "\nlabels: x"));
}

TEST_F(DownloadedSetsTest, WhatWasNotDownloadedIsTold) {
  const auto reported = [](const std::string& type) {
    return complaint([&] { build<Dataset>("type: " + type); });
  };
  const auto missing = [&](const std::string& type, const std::string& file) {
    return "the data set '" + type + "' is not on this machine: there is no '" +
           folder_.path(sets_ + type + "/" + file) + "'\nfetch it first: 'accel-run download " +
           type + "', or name its folder as 'path'";
  };
  EXPECT_EQ(reported("mnist"), missing("mnist", "train-images-idx3-ubyte.gz"));
  folder_.write(sets_ + "mnist/train-images-idx3-ubyte.gz", "");
  EXPECT_EQ(reported("mnist"), missing("mnist", "train-labels-idx1-ubyte.gz"));
  EXPECT_EQ(reported("cifar10"), missing("cifar10", "cifar-10-binary.tar.gz"));
  unsetenv(kCacheVariable);
  unsetenv("HOME");
  EXPECT_EQ(reported("cifar10"),
            "no folder for the dataset 'cifar10': neither XDG_CACHE_HOME nor HOME is set\n"
            "name the folder that holds it as its 'path'");
}

TEST_F(DownloadedSetsTest, CifarsBatchesFollowOneAnother) {
  folder_.write(sets_ + "cifar10/cifar-10-binary.tar.gz", archive());
  const auto data = build<Dataset>("type: cifar10");
  ASSERT_EQ(data->size(), 15);
  std::vector<int64_t> classes;
  for (int64_t i = 0; i < data->size(); ++i) {
    const Sample sample = data->sample(i);
    classes.push_back(sample.target.as<int64_t>()[0]);
    EXPECT_EQ(sample.input.as<float>()[3071], static_cast<float>(classes.back()) / 255.0f);
  }
  EXPECT_EQ(classes, (std::vector<int64_t>{0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4}));
  EXPECT_EQ(data->shape().input, (Shape{3, 32, 32}));
  EXPECT_EQ(data->shape().classes, 10);
  EXPECT_EQ(data->shape().labels.at(9), "truck");
  const auto test = build<Dataset>("type: cifar10", {.train = false});
  ASSERT_EQ(test->size(), 1);
  EXPECT_EQ(test->sample(0).target.as<int64_t>()[0], 9);
  EXPECT_EQ(test->sample(0).input.as<float>()[0], 1.0f);
  EXPECT_NE(test->fingerprint(), data->fingerprint());
}

TEST_F(DownloadedSetsTest, CifarCanBeUnpacked) {
  folder_.write("mine/test_batch.bin", photographs(3, '\x02', '\0'));
  const std::string recipe = "type: cifar10\nsplit: test\npath: " + folder_.path("mine");
  EXPECT_EQ(build<Dataset>(recipe)->size(), 3);
  folder_.write("mine/test_batch.bin", "x");
  EXPECT_EQ(complaint<Dataset>(recipe),
            "'" + folder_.path("mine/test_batch.bin") +
                "' has 1 bytes, not a multiple of the record size 3073");
}

TEST_F(DownloadedSetsTest, CifarsArchiveMustBeWhole) {
  const std::string path = sets_ + "cifar10/cifar-10-binary.tar.gz";
  for (const char* name : {"data_batch_4.bin", "test_batch.bin"}) {
    folder_.write(path, archive(name));
    const bool train = name[0] == 'd';
    EXPECT_EQ(complaint([&] { build<Dataset>("type: cifar10", {.train = train}); }),
              "'" + folder_.path(path) + "' holds no '" + name +
                  "'\nit must be the archive of CIFAR-10's binary version");
    EXPECT_EQ(complaint([&] { build<Dataset>("type: cifar10", {.train = !train}); }), "");
  }
  folder_.write(path,
                gzip_of(tar_member("c/test_batch.bin", photographs(1, '\x0b', '\0')) + tar_end()));
  EXPECT_EQ(
      complaint<Dataset>("type: cifar10", {.train = false}),
      "record 0 of '" + folder_.path(path) + "/c/test_batch.bin' has the label 11, 0 to 9 wanted");
}

class Sst2Test : public DownloadedSetsTest {
 protected:
  static std::vector<std::pair<std::string, std::string>> files() {
    return {{"SST-2/", ""},
            {"SST-2/dev.tsv", "sentence\tlabel\nbad \t0\n"},
            {"SST-2/train.tsv", "sentence\tlabel\ngood films\t1\n\"bad film\t0\ngood\t1\n"}};
  }

  std::string put(const std::string& archive) {
    return folder_.write(sets_ + "sst2/SST-2.zip", archive);
  }

  const std::string tokenizer_ = folder_.write("tokenizer.json", kSmallTokenizer);
  const std::string recipe_ = "type: sst2\ntokenizer: " + tokenizer_ + "\n";
};

TEST_F(Sst2Test, SentencesAreTokensAndLabelsClasses) {
  put(zip_archive(files(), true));
  const auto data = build<Dataset>(recipe_);
  ASSERT_EQ(data->size(), 3);
  EXPECT_EQ(data->shape().classes, 2);
  const auto ids = [&](int64_t index) {
    const Array input = data->sample(index).input;
    return std::vector<int64_t>(input.as<int64_t>().begin(), input.as<int64_t>().end());
  };
  EXPECT_EQ(ids(0), (std::vector<int64_t>{2, 5, 7, 8, 3}));
  EXPECT_EQ(ids(1), (std::vector<int64_t>{2, 1, 6, 7, 3}));
  EXPECT_EQ(data->sample(0).target.as<int64_t>()[0], 1);
  EXPECT_EQ(data->sample(1).target.as<int64_t>()[0], 0);
  EXPECT_EQ(build<Dataset>(recipe_ + "max_length: 3")->sample(0).input.shape(), Shape{3});
  const auto dev = build<Dataset>(recipe_, {.train = false});
  ASSERT_EQ(dev->size(), 1);
  EXPECT_EQ(dev->sample(0).input.shape(), Shape{3});
}

TEST_F(Sst2Test, ItIsTheTableInTheArchive) {
  put(zip_archive(files(), true));
  const std::string file = folder_.write("mine/train.tsv", files().back().second);
  const std::string print = build<Dataset>(recipe_)->fingerprint();
  EXPECT_EQ(build<Dataset>(recipe_ + "path: " + folder_.path("mine"))->fingerprint(), print);
  EXPECT_EQ(build<Dataset>("type: tsv\ntext: sentence\ntarget: label\nheader: true\npath: " + file +
                           "\ntokenizer: " + tokenizer_)
                ->fingerprint(),
            print);
}

TEST_F(Sst2Test, WhatIsWrongIsToldWithItsPlace) {
  const auto reported = [&] { return complaint([&] { build<Dataset>(recipe_); }); };
  const std::string path = folder_.path(sets_ + "sst2/SST-2.zip");
  EXPECT_EQ(reported(),
            "the data set 'sst2' is not on this machine: there is no '" + path +
                "'\nfetch it first: 'accel-run download sst2', or name its folder as 'path'");
  put(zip_archive({{"SST-2/dev.tsv", "x"}}, true));
  EXPECT_EQ(reported(), "cannot read '" + path +
                            "': the zip archive has no 'SST-2/train.tsv'\n"
                            "it must be the archive that 'accel-run download sst2' fetches");
  put(zip_archive({{"SST-2/train.tsv", "sentence\tlabel\ngood\t1\nbad\n"}}, true));
  EXPECT_NE(reported().find(path + "/SST-2/train.tsv:3"), std::string::npos) << reported();
  EXPECT_EQ(complaint<Dataset>("type: sst2"),
            "recipe.yaml:1:1: error: 'text' is turned into tokens, which takes a 'tokenizer'\n"
            "    type: sst2\n"
            "    ^\n");
}

}  // namespace
}  // namespace accel::downloaded_sets_test
