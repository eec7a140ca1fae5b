// Uploads to a hub that answers from a list; tests/smoke/push.py checks the requests.
#include "runner/fetch/push.h"

#include <gtest/gtest.h>

#include <deque>

#include "core/base/error.h"
#include "runner/fetch/model_card.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::push_test {
namespace {

class FakeHub final : public HttpClient {
 public:
  struct Reply {
    int status = 200;
    std::string body = "{}";
    std::string error = {};
    std::map<std::string, std::string> headers = {};
  };
  std::deque<Reply> replies;
  std::vector<std::string> log;  ///< "POST URL", with " and TOKEN" where one was sent

  HttpResult perform(const HttpQuery& query, const Sink& sink) override {
    std::string line = query.method + " " + query.url;
    for (const std::string& header : query.headers) {
      if (header.starts_with("Authorization: ")) line += " and " + header.substr(15);
    }
    log.push_back(line);
    if (replies.empty()) return {500, {}, ""};
    const Reply reply = replies.front();
    replies.pop_front();
    const HttpResult result{reply.status, reply.headers, reply.error};
    sink(result, reply.body);
    return result;
  }
};

class PushTest : public testing::Test {
 protected:
  PushTest() {
    folder_.write("m/config.json", "{}");
    folder_.write("m/a.bin", "weights");
  }

  std::string push(std::deque<FakeHub::Reply> replies, const std::string& token = "tok") {
    PushRequest request;
    request.name = parse_hub_name("hf:org/m");
    request.message = "m";
    request.files = files_to_push(folder_.path("m"));
    HubAddress address;
    address.endpoint = "https://hub";
    address.token = token;
    hub_.replies = std::move(replies);
    hub_.log.clear();
    std::string url;
    const std::string error = complaint([&] {
      url = push_files(hub_, request, address,
                       {.attempts = 2, .pause = std::chrono::milliseconds(0)});
    });
    return error.empty() ? url : error;
  }

  TempFolder folder_;
  FakeHub hub_;
};

constexpr auto kModes =
    R"({"files": [{"path": "a.bin", "uploadMode": "lfs"}, {"path": "config.json", "uploadMode": "regular"}]})";
constexpr auto kOid = "9a17d3d9fe5f4ab23ac35d0aa5fb3b3ed1a9db9ff2d1e7a5b9a05e7d9c8a9d3e";

TEST_F(PushTest, ATokenGoesToTheHubOnly) {
  const std::string oid = files_to_push(folder_.path("m"))[0].sha256;
  const std::string batch =
      R"({"objects": [{"oid": ")" + oid +
      R"(", "actions": {"upload": {"href": "https://store/x?signature=1"}}}]})";
  EXPECT_EQ(push({{}, {200, kModes}, {200, batch}, {}, {200, R"({"commitUrl": "https://hub/c"})"}}),
            "https://hub/c");
  EXPECT_EQ(hub_.log, (std::vector<std::string>{
                          "POST https://hub/api/repos/create and Bearer tok",
                          "POST https://hub/api/models/org/m/preupload/main and Bearer tok",
                          "POST https://hub/org/m.git/info/lfs/objects/batch and Bearer tok",
                          "PUT https://store/x?signature=1",
                          "POST https://hub/api/models/org/m/commit/main and Bearer tok"}));
}

TEST_F(PushTest, FailuresSayWhatWasNotDone) {
  const std::string retry =
      "\nnothing is committed: run the same command again; uploaded files are kept";
  EXPECT_EQ(push({{500}, {500}}),
            "cannot create the repository for 'org/m': the server answered 500" + retry);
  EXPECT_EQ(hub_.log.size(), 2U);
  EXPECT_EQ(push({{409}, {0, "", "Timeout was reached"}, {0, "", "Timeout was reached"}}),
            "cannot ask how to upload for 'org/m': Timeout was reached" + retry);
  EXPECT_EQ(push({{403}}),
            "the hub refuses to create the repository for 'org/m': it answered 403\n"
            "check that the token has write access");
  EXPECT_EQ(push({{401}}, ""),
            "the hub refuses to create the repository for 'org/m': it answered 401\n"
            "set HF_TOKEN to a token with write access");
}

TEST_F(PushTest, FailedUploadsNameTheFile) {
  const std::string oid = files_to_push(folder_.path("m"))[0].sha256;
  const auto batch = [&](const std::string& upload) {
    return R"({"objects": [{"oid": ")" + oid + R"(", "actions": {"upload": )" + upload +
           R"(, "verify": {"href": "https://hub/v"}}}]})";
  };
  const std::string whole = batch(R"({"href": "https://s/x"})");
  const std::string parts = batch(
      R"({"href": "https://hub/done", "header": {"chunk_size": "4", "01": "https://s/1", "02": "https://s/2"}})");
  const FakeHub::Reply part{200, "", "", {{"etag", "e"}}};
  const std::pair<std::deque<FakeHub::Reply>, std::string> cases[] = {
      {{{200, whole}, {400}}, "cannot upload 'a.bin' for 'org/m'"},
      {{{200, whole}, {}, {400}}, "cannot verify 'a.bin' for 'org/m'"},
      {{{200, parts}, part, {400}}, "cannot upload part 2 of 'a.bin' for 'org/m'"},
      {{{200, parts}, part, part, {400}}, "cannot complete 'a.bin' for 'org/m'"},
      {{{200, whole}, {}, {}, {400}}, "cannot commit the files for 'org/m'"},
      {{{400}}, "cannot ask where to upload for 'org/m'"},
  };
  for (const auto& [after, wanted] : cases) {
    std::deque<FakeHub::Reply> replies = {{}, {200, kModes}};
    replies.insert(replies.end(), after.begin(), after.end());
    const std::string found = push(replies);
    EXPECT_EQ(found.substr(0, found.find(": ")), wanted);
  }
}

TEST_F(PushTest, OtherAnswersAreNoneOfTheHub) {
  const std::string oid = files_to_push(folder_.path("m"))[0].sha256;
  const auto not_hub = [](const std::string& what) {
    return "the answer to '" + what + "' of 'https://hub' is not one of the hub\ncheck HF_ENDPOINT";
  };
  EXPECT_EQ(push({{}, {200, "<html>"}}), not_hub("preupload"));
  for (const std::string& objects :
       {std::string("[]"), R"([{"oid": ")" + std::string(kOid) + "\"}]",
        R"([{"oid": ")" + oid + R"(", "actions": {}}])"}) {
    EXPECT_EQ(push({{}, {200, kModes}, {200, R"({"objects": )" + objects + "}"}}),
              not_hub("LFS batch"));
  }
  EXPECT_EQ(
      push({{},
            {200, kModes},
            {200, R"({"objects": [{"oid": ")" + oid + R"(", "error": {"message": "quota"}}]})"}}),
      "the hub refuses 'a.bin': quota");
  const std::string parts =
      R"({"objects": [{"oid": ")" + oid +
      R"(", "actions": {"upload": {"href": "https://hub/done", "header": {"chunk_size": 4, "1": "https://s/1", "2": "https://s/2"}}}}]})";
  EXPECT_EQ(push({{}, {200, kModes}, {200, parts}, {}}), not_hub("upload"));  // without an ETag
}

TEST_F(PushTest, FoldersHaveFilesOnly) {
  const TempFolder empty;
  EXPECT_EQ(complaint([&] { files_to_push(empty.path()); }), "'" + empty.path() + "' has no files");
  folder_.write("m/sub/x", "");
  EXPECT_EQ(
      complaint([&] { files_to_push(folder_.path("m")); }),
      "'" + folder_.path("m/sub") +
          "' is not a file\npush a folder that 'accel-run export' wrote, which has files only");
}

TEST(ModelCardTest, HasTheMetadataOfTheHub) {
  const TempFolder folder;
  EXPECT_EQ(complaint([&] { model_card("o/n", folder.path(), ""); }),
            "'" + folder.path() +
                "' has neither 'config.json' nor 'adapter_config.json'\n"
                "push a run, or a folder that 'accel-run export' wrote");
  folder.write("config.json", R"({"architectures": ["BertForMaskedLM"]})");
  EXPECT_EQ(model_card("o/n", folder.path(), "Trained."),
            "---\nlibrary_name: transformers\npipeline_tag: fill-mask\ntags:\n- accel-run\n---\n\n"
            "# n\n\nTrained.\n");
  folder.write("adapter_config.json", R"({"base_model_name_or_path": "org/base"})");
  EXPECT_EQ(model_card("o/n", folder.path(), "Trained.").substr(0, 46),
            "---\nlibrary_name: peft\nbase_model: org/base\nta");
  folder.write("adapter_config.json", R"({"base_model_name_or_path": "/data/base"})");
  EXPECT_EQ(model_card("o/n", folder.path(), "Trained.").find("base_model"), std::string::npos);
}

}  // namespace
}  // namespace accel::push_test
