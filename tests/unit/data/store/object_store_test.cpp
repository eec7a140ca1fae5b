// Reads from stores that fail, lie and change.
#include "data/store/object_store.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "data/store/store_protocol.h"
#include "data/store/xml.h"
#include "tests/unit/data/store/fake_server.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::object_store_test {
namespace {

constexpr auto kFolder = "https://h/d";
constexpr auto kUrl = "https://h/d/a.bin";
constexpr auto kServerHint = "\ncheck the server and the network, then resume the run";
constexpr auto kChangedHint =
    "\na run needs the data that it started with: restore the object, or start another run";

class ObjectStoreTest : public testing::Test {
 protected:
  ObjectStoreTest() { server_.objects[kUrl] = "0123456789abcdefghij"; }

  /// The bytes of a range, or the error.
  std::string read(ByteRange range, std::vector<Mishap> mishaps = {}) {
    const auto store = open_store(kFolder, server_.context());
    server_.mishaps[kUrl].assign(mishaps.begin(), mishaps.end());
    std::string out;
    const std::string error = complaint([&] {
      store->read({"a.bin", 20, "\"v1\""}, range, [&](ByteSpan bytes) { out += as_text(bytes); },
                  {});
    });
    return error.empty() ? out : error;
  }
  std::string found(const std::vector<Mishap>& mishaps = {}) {
    const auto store = open_store(kFolder, server_.context());
    server_.mishaps[kUrl].assign(mishaps.begin(), mishaps.end());
    std::string out;
    const std::string error = complaint([&] {
      const auto object = store->find("a.bin");
      out = object ? object->name + " " + std::to_string(object->size) + " " + object->version
                   : "none";
    });
    return error.empty() ? out : error;
  }

  FakeServer server_;
};

TEST_F(ObjectStoreTest, ReadsExactlyTheRange) {
  EXPECT_EQ(read({3, 5}), "34567");
  EXPECT_EQ(server_.take_log(), std::vector<std::string>{"https://h/d/a.bin 3-7"});
}

TEST_F(ObjectStoreTest, ABrokenConnectionContinuesWhereItBroke) {
  EXPECT_EQ(read({3, 12}, {{.cut = 5}, {.status = 503}, {.less = 2}}), "3456789abcde");
  EXPECT_EQ(server_.take_log(),
            (std::vector<std::string>{"https://h/d/a.bin 3-14", "https://h/d/a.bin 8-14",
                                      "https://h/d/a.bin 8-14", "https://h/d/a.bin 13-14"}));
}

TEST_F(ObjectStoreTest, ProgressEndsASeriesOfFailures) {
  const Mishap failure{.status = 500}, progress{.cut = 5};
  EXPECT_EQ(read({0, 20}, {failure, failure, progress, failure, progress, failure}),
            "0123456789abcdefghij");
}

struct Case {
  std::vector<Mishap> mishaps;
  const char* error;
};

TEST_F(ObjectStoreTest, FailuresNameTheObject) {
  const std::vector<Case> cases = {
      {std::vector<Mishap>(3, {.status = 503}),
       "cannot read 'https://h/d/a.bin': the server answered 503"},
      {std::vector<Mishap>(3, {.cut = 0}),
       "cannot read 'https://h/d/a.bin': Transferred a partial file"},
      {std::vector<Mishap>(3, {.shift = 1}),
       "cannot read 'https://h/d/a.bin': the server sent bytes from 1 instead of 0"},
      {std::vector<Mishap>(3, {.no_range = true}),
       "cannot read 'https://h/d/a.bin': the server answered 200 to a range request"},
      {std::vector<Mishap>(3, {.less = 10}),
       "cannot read 'https://h/d/a.bin': the server sent 0 of 10 bytes"},
  };
  for (const Case& each : cases)
    EXPECT_EQ(read({0, 10}, each.mishaps), each.error + std::string(kServerHint));
  server_.take_log();
  EXPECT_EQ(read({0, 10}, {{.more = "extra"}}),
            "cannot read 'https://h/d/a.bin': the server sent more than the 10 bytes of the range" +
                std::string(kServerHint));
  EXPECT_EQ(server_.take_log().size(), 1U);
}

TEST_F(ObjectStoreTest, AChangedObjectIsAnErrorAtOnce) {
  const std::string start = "'https://h/d/a.bin' changed while it was read: ";
  EXPECT_EQ(read({0, 10}, {{.etag = "\"v2\""}}),
            start + "its version was \"v1\" and is \"v2\"" + kChangedHint);
  EXPECT_EQ(read({0, 10}, {{.grown = 4}}), start + "it had 20 bytes and has 24" + kChangedHint);
  EXPECT_EQ(read({0, 10}, {{.status = 412}}), start + "the server answered 412" + kChangedHint);
  EXPECT_EQ(server_.take_log().size(), 3U);
}

TEST_F(ObjectStoreTest, RefusalsAreNotRepeated) {
  EXPECT_EQ(read({0, 5}, {{.status = 404}}),
            "'https://h/d/a.bin' does not exist: the server answered 404\ncheck 'path'");
  EXPECT_EQ(read({0, 5}, {{.status = 403, .body = "<Error><Code>AccessDenied</Code></Error>"}}),
            "'https://h/d/a.bin' is refused: the server answered 403 (AccessDenied)\n"
            "the hub reads HF_TOKEN, other servers the password in ~/.netrc");
  EXPECT_EQ(read({0, 5}, {{.status = 301, .headers = {{"x-amz-bucket-region", "eu-west-3"}}}}),
            "'https://h/d/a.bin' is refused: its bucket is in region 'eu-west-3'\n"
            "set AWS_REGION=eu-west-3");
  EXPECT_EQ(server_.take_log().size(), 3U);
}

TEST_F(ObjectStoreTest, FindsSizeAndVersion) {
  EXPECT_EQ(found(), "a.bin 20 \"v1\"");
  EXPECT_EQ(found({{.status = 404}}), "none");
  EXPECT_EQ(found({{.status = 500}}), "a.bin 20 \"v1\"");
  server_.objects[kUrl] = "";
  EXPECT_EQ(found(), "a.bin 0 ");
  server_.objects[kUrl] = "xyz";
  EXPECT_EQ(found({{.no_version = true}}),
            "the server of 'https://h/d/a.bin' sends neither ETag nor Last-Modified\n"
            "a change of the object would not be noticed: use another server");
  EXPECT_EQ(found({{.no_range = true}}),
            "the server of 'https://h/d/a.bin' does not support range requests\n"
            "use a server with range requests, such as nginx, or copy the data to the disk");
}

TEST_F(ObjectStoreTest, TheHubIsSentItsToken) {
  StoreContext context = server_.context();
  context.environment = [](const std::string& name) {
    return name == "HF_TOKEN" ? std::optional<std::string>("hf_x") : std::nullopt;
  };
  const std::string hub = "https://huggingface.co/datasets/o/n/resolve/main";
  EXPECT_FALSE(open_store(hub, context)->find("a"));
  EXPECT_FALSE(open_store("https://other/d", context)->find("a"));
  EXPECT_EQ(server_.authorizations().size(), 1U);
  EXPECT_EQ(server_.authorizations().at(hub + "/a"), "Authorization: Bearer hf_x");
}

TEST_F(ObjectStoreTest, S3IsAddressedByHostOrPath) {
  std::map<std::string, std::string> variables = {{"AWS_REGION", "eu-west-1"},
                                                  {"AWS_EC2_METADATA_DISABLED", "true"}};
  StoreContext context = server_.context(0);
  context.environment = [&](const std::string& name) {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  };
  EXPECT_FALSE(open_store("s3://b/p q", context)->find("k"));
  EXPECT_FALSE(open_store("s3://b.c", context)->find("k"));
  variables["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9/root";
  EXPECT_FALSE(open_store("s3://b/p", context)->find("k"));
  EXPECT_EQ(server_.take_log(),
            (std::vector<std::string>{"https://b.s3.eu-west-1.amazonaws.com/p%20q/k 0-0",
                                      "https://s3.eu-west-1.amazonaws.com/b.c/k 0-0",
                                      "http://127.0.0.1:9/root/b/p/k 0-0"}));
  const auto store = open_store("s3://b/p", context);
  EXPECT_EQ(store->url_of("k"), "s3://b/p/k");
  const std::string page = "http://127.0.0.1:9/root/b?delimiter=%2F&list-type=2&prefix=p%2F";
  server_.objects[page] =
      "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>n</NextContinuation"
      "Token><Contents><Key>p/b &amp; c</Key><Size>7</Size><ETag>&quot;e&quot;</ETag></Contents>"
      "<Contents><Key>p/</Key><Size>0</Size><ETag>x</ETag></Contents></ListBucketResult>";
  server_.objects
      ["http://127.0.0.1:9/root/b?continuation-token=n&delimiter=%2F&list-type=2&"
       "prefix=p%2F"] =
      "<ListBucketResult><Contents><Key>p/a</Key><Size>5</Size><ETag>f</ETag></Contents>"
      "</ListBucketResult>";
  const auto listing = store->list(ListingDepth::kFolder);
  ASSERT_TRUE(listing);
  ASSERT_EQ(listing->size(), 2U);
  EXPECT_EQ((*listing)[0].name, "a");
  EXPECT_EQ((*listing)[1].name, "b & c");
  EXPECT_EQ((*listing)[1].size, 7);
  EXPECT_EQ((*listing)[1].version, "\"e\"");
  server_.objects[page] = "<html>";
  EXPECT_EQ(complaint([&] { store->list(ListingDepth::kFolder); }),
            "the listing of 's3://b/p' cannot be read" + std::string(kServerHint));
  EXPECT_EQ(complaint([&] {
              store->read({"k", 4, "e"}, {0, 4}, [](ByteSpan) {}, {});
            }),
            "'s3://b/p/k' does not exist: the server answered 404\ncheck 'path'");
  server_.mishaps["http://127.0.0.1:9/root/b/p/k"].push_back({.status = 403});
  EXPECT_EQ(complaint([&] { store->find("k"); }),
            "'s3://b/p/k' is refused: the server answered 403\nno credentials were found: set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE");
  variables["AWS_ACCESS_KEY_ID"] = variables["AWS_SECRET_ACCESS_KEY"] = "x";
  server_.mishaps["http://127.0.0.1:9/root/b/p/k"].push_back({.status = 403});
  EXPECT_EQ(complaint([&] { open_store("s3://b/p", context)->find("k"); }),
            "'s3://b/p/k' is refused: the server answered 403\ncheck the credentials, which are "
            "those of the environment, their permissions, AWS_REGION, which is 'eu-west-1', and "
            "the clock");
}

TEST_F(ObjectStoreTest, AllFilesBelowAFolderAreListed) {
  StoreContext context = server_.context();
  context.environment = [](const std::string& name) {
    const bool is_url = name == "AWS_ENDPOINT_URL" || name == "HF_ENDPOINT";
    return is_url ? std::optional<std::string>("http://127.0.0.1:9") : std::nullopt;
  };
  server_.objects["http://127.0.0.1:9/b?list-type=2&prefix=p%2F"] =
      "<ListBucketResult><Contents><Key>p/a/x</Key><Size>5</Size><ETag>f</ETag></Contents>"
      "<Contents><Key>other</Key><Size>5</Size><ETag>f</ETag></Contents>"
      "<Contents><Key>p/b</Key><Size>6</Size><ETag>g</ETag></Contents></ListBucketResult>";
  const auto names = [&](const std::string& url, ListingDepth depth) {
    std::string out;
    const auto listing = open_store(url, context)->list(depth);
    if (!listing) return std::string("none");
    for (const ObjectInfo& object : *listing) {
      out += object.name + " " + std::to_string(object.size) + ";";
    }
    return out;
  };
  EXPECT_EQ(names("s3://b/p", ListingDepth::kAll), "a/x 5;b 6;");
  const std::string hub = "http://127.0.0.1:9";
  server_.objects[hub + "/api/datasets/o/n/revision/main"] =
      R"({"siblings":[{"rfilename":"data/t.parquet"},{"rfilename":"README.md"},)"
      R"({"rfilename":"data/x/u.parquet"}],"tags":[]})";
  const std::string resolve = hub + "/datasets/o/n/resolve/main";
  EXPECT_EQ(names(resolve, ListingDepth::kAll), "README.md 0;data/t.parquet 0;data/x/u.parquet 0;");
  EXPECT_EQ(names(resolve + "/data", ListingDepth::kAll), "t.parquet 0;x/u.parquet 0;");
  EXPECT_EQ(names(resolve + "/data", ListingDepth::kFolder), "t.parquet 0;");
  for (const std::string other : {"/o/n/resolve/main", "/datasets/o/n"}) {
    EXPECT_EQ(names(hub + other, ListingDepth::kAll), "none") << other;
  }
  for (const char* wrong : {"<html>", R"({"siblings":[{}]})", "{}"}) {
    server_.objects[hub + "/api/datasets/o/n/revision/main"] = wrong;
    EXPECT_EQ(complaint([&] { names(resolve, ListingDepth::kAll); }),
              "the listing of '" + resolve + "' cannot be read" + std::string(kServerHint));
  }
}

TEST_F(ObjectStoreTest, AStopEndsTheRetries) {
  const auto store = open_store(kFolder, server_.context(100));
  server_.mishaps[kUrl].assign(50, {.status = 503});
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(complaint([&] {
              store->read(
                  {"a.bin", 20, "\"v1\""}, {0, 4}, [](ByteSpan) {}, stop.get_token());
            }),
            "reading 'https://h/d/a.bin' was stopped");
}

TEST(StoreListingTest, OtherXmlIsNone) {
  EXPECT_FALSE(listing_page(""));
  EXPECT_FALSE(listing_page("<ListBucketResult><Contents><Key>a</Key></Contents>"));
  EXPECT_FALSE(
      listing_page("<ListBucketResult><Contents><Key>a</Key><Size>x</Size><ETag>e</ETag>"
                   "</Contents></ListBucketResult>"));
  EXPECT_FALSE(listing_page("<ListBucketResult><IsTruncated>true</IsTruncated>"));
  EXPECT_EQ(xml_element("<a>&lt;&#38;&gt;</a>", "a"), "<&>");
}

}  // namespace
}  // namespace accel::object_store_test
