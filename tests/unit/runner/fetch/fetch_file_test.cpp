#include "runner/fetch/fetch_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/runner/fetch/fake_web.h"

namespace accel::fetch_file_test {
namespace {

namespace fs = std::filesystem;

constexpr auto kUrl = "https://a.org/x/f.bin";
const std::string kBody = "0123456789abcdefghij";

class FetchFileTest : public testing::Test {
 protected:
  FetchFileTest() {
    web_.pages[kUrl] = {kBody};
    order_.url = kUrl;
    order_.target = fs::path(folder_.path()) / "sub" / "f.bin";
    order_.name = "f.bin";
    order_.size = static_cast<int64_t>(kBody.size());
    order_.digest_hex = digest_of(Digest::Kind::kSha256, kBody);
  }

  FakePage& page() { return web_.pages[kUrl]; }
  void fetch(const Credential& credential = {}) {
    fetch_file(web_, order_, credential, no_pause());
  }
  /// What it says when it does not come; "" when it does.
  std::string complaint() {
    try {
      fetch();
    } catch (const Error& error) {
      return std::string(error.what()) + "\n" + error.hint();
    } catch (const FetchRefused& refused) {
      return refused.what();
    }
    return "";
  }
  std::string content(const fs::path& path) const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  fs::path partial() const { return order_.target.string() + ".incomplete"; }
  void start_with(const std::string& bytes) {
    fs::create_directories(order_.target.parent_path());
    std::ofstream(partial()) << bytes;
  }

  TempFolder folder_;
  FakeWeb web_;
  FetchRequest order_;
};

TEST_F(FetchFileTest, AWholeFileIsThereAndNothingElse) {
  fetch();
  EXPECT_EQ(content(order_.target), kBody);
  EXPECT_FALSE(fs::exists(partial()));
  fetch();
  EXPECT_EQ(web_.log.size(), 1u) << "what is there is not fetched again";
}

TEST_F(FetchFileTest, GoesOnWhereTheConnectionBroke) {
  page().breaks = {7, 0, 5};
  fetch();
  EXPECT_EQ(content(order_.target), kBody);
  const std::string url = kUrl;
  EXPECT_EQ(web_.log,
            std::vector<std::string>({url, url + " from 7", url + " from 7", url + " from 12"}));
}

TEST_F(FetchFileTest, GoesOnInAnotherProcessLife) {
  start_with(kBody.substr(0, 9));
  fetch();
  EXPECT_EQ(content(order_.target), kBody);
  EXPECT_EQ(web_.log, std::vector<std::string>({std::string(kUrl) + " from 9"}));
}

TEST_F(FetchFileTest, AServerWithoutRangesStartsAgain) {
  start_with("012345678");
  page().ranges = false;
  fetch();
  EXPECT_EQ(content(order_.target), kBody);
}

TEST_F(FetchFileTest, WithoutASizeTheWholeAnswerIsTheFile) {
  order_.size.reset();
  start_with(kBody);  // a range behind its end cannot be had
  fetch();
  EXPECT_EQ(content(order_.target), kBody);
}

TEST_F(FetchFileTest, GivesUpAfterAFewAttemptsWithoutAByteAndKeepsWhatCame) {
  page().breaks = {4, 0, 0, 0, 0};
  EXPECT_EQ(complaint(),
            "cannot download 'f.bin' from 'https://a.org': Transferred a partial file\n"
            "the partial download is kept: run the same command again");
  EXPECT_EQ(content(partial()), "0123");
  EXPECT_EQ(web_.log.size(), 3u);
  page().breaks.clear();
  page().refusals = 9;
  EXPECT_EQ(complaint(),
            "cannot download 'f.bin' from 'https://a.org': the server answered 503\n"
            "the partial download is kept: run the same command again");
}

TEST_F(FetchFileTest, AServerThatIsBusyIsAskedAgain) {
  page().refusals = 2;
  fetch();
  EXPECT_EQ(content(order_.target), kBody);
}

TEST_F(FetchFileTest, RefusesOtherBytesAndKeepsNoneOfThem) {
  const std::string other(kBody.size(), 'x');
  page().body = other;
  EXPECT_EQ(complaint(),
            "'f.bin' from 'https://a.org' has the checksum " +
                digest_of(Digest::Kind::kSha256, other) + ", not " + order_.digest_hex +
                "\nthe download is deleted; the file may have changed, or a proxy altered it");
  EXPECT_FALSE(fs::exists(partial()));
  EXPECT_FALSE(fs::exists(order_.target));
}

TEST_F(FetchFileTest, RefusesALongerFileBeforeItFillsTheDisk) {
  page().body = kBody + std::string(1000, 'x');
  EXPECT_EQ(complaint(),
            "'f.bin' from 'https://a.org' is longer than the 20 bytes it should have\n"
            "the download is deleted; the file may have changed, or a proxy altered it");
  EXPECT_FALSE(fs::exists(partial()));
}

TEST_F(FetchFileTest, AShorterFileIsNeverTaken) {
  page().body = kBody.substr(0, 10);
  EXPECT_NE(complaint(), "");
  EXPECT_FALSE(fs::exists(order_.target));
}

TEST_F(FetchFileTest, ARefusalIsTheCallersToTell) {
  page().status = 404;
  EXPECT_EQ(complaint(), "refused with 404");
  EXPECT_EQ(web_.log.size(), 1u);
}

TEST_F(FetchFileTest, GitsChecksumsCountAHeader) {
  order_.digest = Digest::Kind::kSha1;
  order_.git_blob = true;
  order_.digest_hex = "60aa4fab17c94e7df50fc1ae1a2e1a2c74de51ff";
  EXPECT_NE(complaint(), "");
  order_.digest_hex = digest_of(Digest::Kind::kSha1, std::string("blob 20\0", 8) + kBody);
  fetch();
}

TEST_F(FetchFileTest, TheTokenGoesToItsOwnServerOnly) {
  page() = {"", 302, {{"location", "https://cdn.org/blob?sig=1"}}};
  web_.pages["https://cdn.org/blob?sig=1"] = {"", 307, {{"location", "/moved"}}};
  web_.pages["https://cdn.org/moved"] = {kBody};
  fetch({"https://a.org", "hf_secret"});
  EXPECT_EQ(content(order_.target), kBody);
  EXPECT_EQ(web_.log,
            std::vector<std::string>({std::string(kUrl) + " and Bearer hf_secret",
                                      "https://cdn.org/blob?sig=1", "https://cdn.org/moved"}));
}

TEST_F(FetchFileTest, OriginsAreComparedWhole) {
  for (const char* url : {"https://a.org:8/x", "http://a.org/x", "https://a.org.evil.com/x",
                          "https://a.org@evil.com/x"}) {
    web_.log.clear();
    order_.url = url;
    web_.pages[url] = {kBody};
    order_.target = fs::path(folder_.path()) / std::to_string(std::hash<std::string>()(url));
    fetch({"https://a.org", "hf_secret"});
    EXPECT_EQ(web_.log, std::vector<std::string>({url}));
  }
}

TEST_F(FetchFileTest, NeverGoesOnUnencrypted) {
  page() = {"", 302, {{"location", "http://a.org/x"}}};
  EXPECT_EQ(complaint(), "'https://a.org' redirects to 'http://a.org/x', which is not encrypted\n");
  page() = {"", 302, {{"location", "f.bin"}}};
  EXPECT_EQ(complaint(), "too many redirects from 'https://a.org'\n");
}

TEST(CurlClientTest, OtherProtocolsAreRefused) {
  const HttpResult result = make_download_client()->perform({"file:///etc/hostname"}, {});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.error, "'file:///etc/hostname' is not an http or https URL");
}

TEST_F(FetchFileTest, TextsAreCapped) {
  EXPECT_EQ(fetch_text(web_, kUrl, 20, {}, no_pause()), kBody);
  try {
    fetch_text(web_, kUrl, 19, {}, no_pause());
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "a response of 'https://a.org' has more than 19 bytes");
  }
  page().breaks = {3};
  EXPECT_EQ(fetch_text(web_, kUrl, 20, {}, no_pause()), kBody);
}

}  // namespace
}  // namespace accel::fetch_file_test
