#include "runner/fetch/sources.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/hub_cache.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/runner/fetch/fake_web.h"

namespace accel::hub_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kCommit(40, 'c');
const std::string kHub = "https://hub.org";
const std::string kListing = kHub + "/api/models/org/name/revision/main?blobs=true";

std::string git_digest(const std::string& body) {
  return digest_of(Digest::Kind::kSha1,
                   "blob " + std::to_string(body.size()) + std::string(1, '\0') + body);
}

class HubTest : public testing::Test {
 protected:
  HubTest()
      : environment_{
            {"HF_HOME", folder_.path()}, {"HF_ENDPOINT", kHub + "/"}, {"HF_TOKEN", "hf_secret"}} {
    add("config.json", "{}", false);
    add("model.safetensors", "weights", true);
    add("README.md", "words", false);
    add("onnx/model.onnx", "other weights", true);
    list();
  }

  void add(const std::string& name, const std::string& body, bool lfs) {
    Json entry = {{"rfilename", name}, {"size", body.size()}, {"blobId", git_digest(body)}};
    if (lfs) {
      entry["lfs"] = {{"sha256", digest_of(Digest::Kind::kSha256, body)}, {"size", body.size()}};
    }
    files_.push_back(entry);
    web_.pages[kHub + "/org/name/resolve/" + kCommit + "/" + name] = {body};
  }
  void list() { web_.pages[kListing] = {Json{{"sha", kCommit}, {"siblings", files_}}.dump()}; }
  EnvironmentLookup lookup() const {
    return [this](const std::string& name) -> std::optional<std::string> {
      const auto found = environment_.find(name);
      return found == environment_.end() ? std::nullopt : std::optional(found->second);
    };
  }
  std::string download(const std::string& name = "hf:org/name", const fs::path& to = {}) {
    RetryPolicy retry = no_pause();
    retry.say = [this](const std::string& line) { said_ += line + "\n"; };
    HubName wanted = parse_hub_name(name);
    wanted.files = patterns_;
    return download_repository(web_, wanted, hub_address(lookup()), to, retry).string();
  }
  std::string complaint() {
    try {
      download();
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("hf_secret"), std::string::npos);
      EXPECT_EQ(error.hint().find("hf_secret"), std::string::npos);
      return std::string(error.what()) + "\n" + error.hint();
    }
    return "";
  }
  std::string content(const fs::path& path) const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TempFolder folder_;
  std::map<std::string, std::string> environment_;
  FakeWeb web_;
  Json files_ = Json::array();
  std::string said_;
  std::vector<std::string> patterns_;
};

TEST_F(HubTest, TheCacheIsHuggingFaces) {
  const fs::path model = fs::path(folder_.path()) / "hub/models--org--name";
  EXPECT_EQ(download(), model / "snapshots" / kCommit);
  EXPECT_EQ(content(model / "refs/main"), kCommit);
  EXPECT_EQ(content(model / "snapshots" / kCommit / "config.json"), "{}");
  EXPECT_EQ(fs::read_symlink(model / "snapshots" / kCommit / "model.safetensors"),
            "../../blobs/" + digest_of(Digest::Kind::kSha256, "weights"));
  EXPECT_EQ(content(model / "blobs" / git_digest("{}")), "{}");
  EXPECT_FALSE(fs::exists(model / "snapshots" / kCommit / "README.md"));
  EXPECT_EQ(said_, "config.json, 2 bytes\nmodel.safetensors, 7 bytes\n");
  EXPECT_EQ(hub_snapshot("org/name", lookup()), model / "snapshots" / kCommit);
  EXPECT_EQ(hub_snapshot("org/name@" + kCommit, lookup()), model / "snapshots" / kCommit);
  EXPECT_EQ(hub_snapshot("org/name@v1", lookup()), std::nullopt);
  for (const std::string& line : web_.log) {
    EXPECT_TRUE(line.ends_with(" and Bearer hf_secret")) << line;
  }
  const size_t asked = web_.log.size();
  download();
  EXPECT_EQ(web_.log.size(), asked + 1) << "only the listing is asked for again";
}

TEST_F(HubTest, AFolderOfOnesOwn) {
  const fs::path to = fs::path(folder_.path()) / "mine";
  EXPECT_EQ(download("hf:org/name", to), to);
  EXPECT_EQ(content(to / "model.safetensors"), "weights");
  EXPECT_FALSE(fs::exists(fs::path(folder_.path()) / "hub"));
}

TEST_F(HubTest, NothingIsFoundUntilAllOfItIsThere) {
  web_.pages.erase(kHub + "/org/name/resolve/" + kCommit + "/model.safetensors");
  EXPECT_EQ(complaint(),
            "cannot download 'model.safetensors' from 'https://hub.org': Couldn't "
            "connect to server\nthe partial download is kept: run the same command again");
  EXPECT_EQ(hub_snapshot("org/name", lookup()), std::nullopt);
  EXPECT_EQ(hub_snapshot("org/name@" + kCommit, lookup()), std::nullopt);
}

TEST_F(HubTest, RefusesNamesThatLeadElsewhere) {
  for (const char* name : {"../config.json", "/etc/passwd", "a/../../config.json", "a\\b.json",
                           "C:x.json", "..", ""}) {
    files_.push_back({{"rfilename", name}, {"size", 1}, {"blobId", std::string(40, 'a')}});
    list();
    EXPECT_TRUE(complaint().starts_with("the hub's listing of 'org/name' names the file '"))
        << name;
    files_.erase(files_.size() - 1);
  }
  EXPECT_FALSE(fs::exists(fs::path(folder_.path()) / "hub"));
}

TEST_F(HubTest, RefusesListingsThatAreNone) {
  const std::pair<std::string, const char*> cases[] = {
      {"<html>", "is not readable: the listing is not JSON"},
      {"{}", "lacks a required field"},
      {R"({"sha": "../../x", "siblings": []})", "has no commit"},
      {R"({"sha": ")" + kCommit + R"(", "siblings": [{"rfilename": "config.json", "size": 1,
                                      "blobId": "../../../x"}]})",
       "has no checksum of 'config.json'"},
      {R"({"sha": ")" + kCommit + R"(", "siblings": [{"rfilename": "config.json"}]})",
       "lacks a required field"},
      {R"({"sha": ")" + kCommit + R"(", "siblings": [{"rfilename": "config.json", "size": 2.5,
                                      "blobId": ")" +
           kCommit + R"("}]})",
       "has no size of 'config.json'"},
  };
  for (const auto& [text, what] : cases) {
    web_.pages[kListing] = {text};
    EXPECT_EQ(complaint(), std::string("the hub's listing of 'org/name' ") + what +
                               "\ncheck that HF_ENDPOINT names a hub");
  }
}

TEST_F(HubTest, TellsRefusalsApart) {
  const struct {
    int status;
    const char* code;
    const char* text;
  } cases[] = {
      {401, "RepoNotFound",
       "the hub has no model 'org/name', or it is private\ncheck that the token in HF_TOKEN has "
       "read access, or check the name"},
      {404, "",
       "the hub has no model 'org/name', or it is private\ncheck that the token in HF_TOKEN has "
       "read access, or check the name"},
      {404, "RevisionNotFound",
       "'org/name' has no revision 'main'\ngive a branch, a tag or a commit after the '@'"},
      {403, "GatedRepo",
       "'org/name' is a gated repository\nrequest access at "
       "https://hub.org/org/name, and check that the token in HF_TOKEN has read access"},
      {401, "",
       "the hub rejects the token for 'org/name'\ncheck that the token in HF_TOKEN has read "
       "access"},
      {410, "", "the hub refuses 'org/name' with 410\n"},
  };
  for (const auto& each : cases) {
    web_.pages[kListing] = {"no", each.status, {{"x-error-code", each.code}}};
    EXPECT_EQ(complaint(), each.text);
  }
  environment_.erase("HF_TOKEN");
  web_.pages[kListing] = {"no", 401};
  EXPECT_EQ(complaint(),
            "the hub rejects the token for 'org/name'\nset HF_TOKEN to a token with read access");
}

TEST_F(HubTest, OfflineNothingIsAsked) {
  environment_["HF_HUB_OFFLINE"] = "1";
  EXPECT_EQ(complaint(),
            "HF_HUB_OFFLINE is set: downloads are disabled\nunset it to download 'org/name'");
  EXPECT_TRUE(web_.log.empty());
}

TEST(HubNameTest, ReadsNamesAndRefusesOthers) {
  EXPECT_EQ(parse_hub_name("hf:gpt2").repository, "gpt2");
  EXPECT_EQ(parse_hub_name("hf:gpt2").revision, "main");
  EXPECT_EQ(parse_hub_name("hf:a-b/c_d.e@refs/pr/1").revision, "refs/pr/1");
  for (const char* text : {"gpt2", "hf:", "hf:a/b/c", "hf:../x", "hf:a/..", "hf:a@", "hf:a@../x",
                           "hf:a@x//y", "hf:a?b", "hf:a b", "hf:/a", "hf:a@b@c", "hf:-a"}) {
    try {
      parse_hub_name(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "'" + std::string(text) + "' is not a model or dataset of the hub");
      EXPECT_EQ(error.hint(),
                "write 'hf:organisation/name', 'hf:organisation/name@revision' or "
                "'hf:datasets/organisation/name'");
    }
  }
}

TEST(HubNameTest, ChoosesWhatAModelIsMadeOf) {
  EXPECT_EQ(
      files_of_model({"config.json", "model.safetensors", "pytorch_model.bin", "tokenizer.json",
                      "pytorch_model.bin.index.json", ".gitattributes", "README.md", "merges.txt",
                      "spiece.model", "tf_model.h5", "onnx/config.json"}),
      std::vector<std::string>(
          {"config.json", "model.safetensors", "tokenizer.json", "merges.txt", "spiece.model"}));
  EXPECT_EQ(files_of_model({"config.json", "pytorch_model.bin"}),
            std::vector<std::string>({"config.json", "pytorch_model.bin"}));
}

TEST(HubCacheTest, FindsFoldersAsHuggingFaceDoes) {
  std::map<std::string, std::string> set;
  const EnvironmentLookup lookup = [&](const std::string& name) -> std::optional<std::string> {
    return set.contains(name) ? std::optional(set[name]) : std::nullopt;
  };
  EXPECT_EQ(hub_cache_folder(lookup), "");
  set["HOME"] = "/home/a";
  EXPECT_EQ(hub_cache_folder(lookup), "/home/a/.cache/huggingface/hub");
  set["XDG_CACHE_HOME"] = "/cache";
  EXPECT_EQ(hub_cache_folder(lookup), "/cache/huggingface/hub");
  set["HF_HOME"] = "/hf";
  EXPECT_EQ(hub_cache_folder(lookup), "/hf/hub");
  set["HF_HUB_CACHE"] = "/elsewhere";
  EXPECT_EQ(hub_cache_folder(lookup), "/elsewhere");
  EXPECT_EQ(hub_snapshot("../x", lookup), std::nullopt);
}

/// A dataset's files lie in folders, with names that an address cannot have as they are.
class HubDatasetTest : public HubTest {
 protected:
  static constexpr auto kSet = "hf:datasets/org/name";

  HubDatasetTest() {
    for (const auto& [name, body] : kSetFiles) {
      files.push_back({{"rfilename", name}, {"size", body.size()}, {"blobId", git_digest(body)}});
    }
    Json listing = {{"sha", kCommit}, {"siblings", files}};
    const std::string place = kHub + "/datasets/org/name/resolve/" + kCommit;
    web_.pages[kHub + "/api/datasets/org/name/revision/main?blobs=true"] = {listing.dump()};
    web_.pages[place + "/README.md"] = {kSetFiles[0].second};
    web_.pages[place + "/data/train%201.csv"] = {kSetFiles[1].second};
    web_.pages[place + "/en/a.parquet"] = {kSetFiles[2].second};
  }

  const std::vector<std::pair<std::string, std::string>> kSetFiles = {
      {"README.md", "---\n---\n"},
      {"data/train 1.csv", "text\nx\n"},
      {"en/a.parquet", "PAR1"},
      {"code.py", "import os"},
      {".git/x.csv", "x"}};
  Json files = Json::array();
};

TEST_F(HubDatasetTest, TheCacheIsHuggingFaces) {
  const fs::path set = fs::path(folder_.path()) / "hub/datasets--org--name";
  const fs::path snapshot = set / "snapshots" / kCommit;
  EXPECT_EQ(download(kSet), snapshot);
  EXPECT_EQ(said_, "README.md, 8 bytes\ndata/train 1.csv, 7 bytes\nen/a.parquet, 4 bytes\n");
  EXPECT_EQ(content(set / "refs/main"), kCommit);
  EXPECT_EQ(fs::read_symlink(snapshot / "data/train 1.csv"),
            "../../../blobs/" + git_digest("text\nx\n"));
  EXPECT_EQ(content(snapshot / "data/train 1.csv"), "text\nx\n");
  EXPECT_EQ(hub_snapshot("datasets/org/name", lookup()), snapshot);
  EXPECT_EQ(hub_snapshot("org/name", lookup()), std::nullopt);
  const fs::path to = fs::path(folder_.path()) / "mine";
  EXPECT_EQ(download(kSet, to), to);
  EXPECT_EQ(content(to / "en/a.parquet"), "PAR1");
}

TEST_F(HubDatasetTest, OnlyFilesThatAreWanted) {
  patterns_ = {"en/*"};
  const fs::path snapshot = download(kSet);
  EXPECT_EQ(said_, "README.md, 8 bytes\nen/a.parquet, 4 bytes\n");
  EXPECT_FALSE(fs::exists(snapshot / "data"));
  patterns_ = {"fr/*"};
  try {
    download(kSet);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "'org/name' has no files like 'fr/*'");
  }
}

TEST_F(HubDatasetTest, IsToldApartFromModels) {
  web_.pages[kHub + "/api/datasets/org/none/revision/main?blobs=true"] = {"no", 404};
  try {
    download("hf:datasets/org/none");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the hub has no dataset 'org/none', or it is private");
  }
}

}  // namespace
}  // namespace accel::hub_test
