// Data sets by name, from a server or another place.
#include "runner/fetch/sources.h"

#include <set>

#include <gtest/gtest.h>

#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/runner/fetch/fake_web.h"

namespace accel::known_sets_test {
namespace {

const KnownSet kLetters = {"letters",
                           "https://maker.org/letters",
                           {{"a.gz", 1, "0cc175b9c0f1b6a831c399e269772661"},
                            {"b.gz", 1, "92eb5ffee6ae2fec3ad71c777531578f"}}};

class KnownSetsTest : public testing::Test {
 protected:
  void download(const std::string& mirror = "") {
    download_set(web_, kLetters, mirror, folder_.path("to"), no_pause());
  }

  FakeWeb web_;
  TempFolder folder_;
};

TEST_F(KnownSetsTest, AllFilesComeFromTheMakerOrAMirror) {
  for (const std::string mirror : {"", "http://near:8/copy"}) {
    const std::string base = mirror.empty() ? "https://maker.org/letters" : mirror;
    std::filesystem::remove_all(folder_.path("to"));
    web_.pages = {{base + "/a.gz", {"a"}}, {base + "/b.gz", {"b"}}};
    web_.log.clear();
    download(mirror);
    EXPECT_EQ(web_.log, (std::vector<std::string>{base + "/a.gz", base + "/b.gz"}));
    EXPECT_EQ(file_content(folder_.path("to/a.gz")), "a");
    EXPECT_EQ(file_content(folder_.path("to/b.gz")), "b");
  }
}

TEST_F(KnownSetsTest, OtherBytesAreRefusedAndNotKept) {
  web_.pages = {{"https://maker.org/letters/a.gz", {"a"}},
                {"https://maker.org/letters/b.gz", {"c"}}};
  EXPECT_EQ(
      complaint([&] { download(); }),
      "'b.gz' from 'https://maker.org' has the checksum 4a8a08f09d37b73795649038408b5f33, not "
      "92eb5ffee6ae2fec3ad71c777531578f\n"
      "the download is deleted; the file may have changed, or a proxy altered it");
  EXPECT_TRUE(std::filesystem::exists(folder_.path("to/a.gz")));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("to/b.gz")));
}

TEST_F(KnownSetsTest, ARefusalNamesTheServer) {
  web_.pages["https://maker.org/letters/a.gz"].status = 404;
  EXPECT_EQ(complaint([&] { download(); }),
            "'https://maker.org' refuses 'a.gz' with 404\n"
            "set ACCEL_RUN_MIRROR to a mirror of it");
}

TEST_F(KnownSetsTest, EachHasANameAndChecksumsOfItsFiles) {
  std::set<std::string> names;
  for (const KnownSet& set : known_sets()) {
    EXPECT_TRUE(names.insert(set.name).second) << set.name;
    EXPECT_TRUE(std::string(set.base).starts_with("https://")) << set.base;
    EXPECT_FALSE(set.files.empty()) << set.name;
    for (const KnownFile& file : set.files) {
      EXPECT_GT(file.size, 0) << file.name;
      EXPECT_EQ(std::string(file.md5).size(), 32U) << file.name;
    }
  }
  EXPECT_EQ(names, (std::set<std::string>{"cifar10", "mnist", "sst2"}));
}

}  // namespace
}  // namespace accel::known_sets_test
