#include "runner/fetch/push.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/activity.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/base/url.h"
#include "core/base/utf8.h"
#include "formats/base64.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto kJson = "Content-Type: application/json";
constexpr auto kLfsJson = "Content-Type: application/vnd.git-lfs+json";
constexpr auto kLfsAccept = "Accept: application/vnd.git-lfs+json";
constexpr auto kNdjson = "Content-Type: application/x-ndjson";
constexpr size_t kSample = 512;  ///< bytes of a file from which the hub tells texts
constexpr size_t kMostOfAnAnswer = size_t{16} << 20;

/// An answer and its body.
struct Answer {
  HttpResult result;
  std::string body;

  bool is_done() const {
    return result.error.empty() && result.status >= 200 && result.status < 300;
  }
};

class Push {
 public:
  Push(HttpClient& client, const PushRequest& request, const HubAddress& address,
       const RetryPolicy& retry)
      : client_(client),
        request_(request),
        address_(address),
        retry_(retry),
        credential_{origin_of_url(address.endpoint), address.token},
        api_(address.endpoint + "/api/models/" + request.name.repository) {}

  std::string run() {
    create();
    const std::map<std::string, bool> is_lfs = upload_modes();
    std::vector<const PushFile*> large;
    for (const PushFile& file : request_.files) {
      if (is_lfs.at(file.name)) large.push_back(&file);
    }
    if (!large.empty()) upload(large);
    return commit(is_lfs);
  }

 private:
  void create() {
    const std::string& repository = request_.name.repository;
    const size_t slash = repository.find('/');
    json body = {{"name", repository.substr(slash + 1)},
                 {"organization", repository.substr(0, slash)},
                 {"type", "model"},
                 {"private", request_.is_private}};
    const Answer answer =
        send("POST", address_.endpoint + "/api/repos/create", {kJson}, body.dump());
    constexpr int kExists = 409;
    if (answer.result.status != kExists) require(answer, "create the repository");
  }

  /// Whether each file becomes an LFS object, by the hub's rules.
  std::map<std::string, bool> upload_modes() {
    json files = json::array();
    for (const PushFile& file : request_.files) {
      const SharedBytes bytes = map_file(file.path);
      const std::string_view all = as_text(bytes.view);
      files.push_back(
          {{"path", file.name}, {"sample", base64(all.substr(0, kSample))}, {"size", file.size}});
    }
    const Answer answer =
        send("POST", api_ + "/preupload/main", {kJson}, json{{"files", files}}.dump());
    require(answer, "ask how to upload");
    std::map<std::string, bool> out;
    for (const json& file : parsed(answer).value("files", json::array())) {
      const std::string mode = file.value("uploadMode", "");
      if (mode == "lfs" || mode == "regular") out[file.value("path", "")] = mode == "lfs";
    }
    for (const PushFile& file : request_.files) {
      if (!out.contains(file.name)) refuse_answer("preupload");
    }
    return out;
  }

  void upload(const std::vector<const PushFile*>& files) {
    json objects = json::array();
    std::map<std::string, const PushFile*> by_oid;  // two equal files are one object
    for (const PushFile* file : files) {
      if (by_oid.emplace(file->sha256, file).second) {
        objects.push_back({{"oid", file->sha256}, {"size", file->size}});
      }
    }
    const json body = {{"operation", "upload"},
                       {"transfers", {"basic", "multipart"}},
                       {"objects", objects},
                       {"hash_algo", "sha256"},
                       {"ref", {{"name", "main"}}}};
    const Answer answer = send(
        "POST", address_.endpoint + "/" + request_.name.repository + ".git/info/lfs/objects/batch",
        {kLfsJson, kLfsAccept}, body.dump());
    require(answer, "ask where to upload");
    size_t uploaded = 0;
    for (const json& object : parsed(answer).value("objects", json::array())) {
      const auto found = by_oid.find(object.value("oid", ""));
      if (found == by_oid.end()) refuse_answer("LFS batch");
      if (object.contains("error")) {
        throw IoError(text("the hub refuses '{}': {}", found->second->name,
                           printable(object["error"].value("message", "no reason given"))));
      }
      if (object.contains("actions")) upload_object(*found->second, object["actions"]);
      ++uploaded;
    }
    if (uploaded != by_oid.size()) refuse_answer("LFS batch");
  }

  void upload_object(const PushFile& file, const json& actions) {
    const json upload = actions.value("upload", json::object());
    const std::string url = upload.value("href", "");
    const json header = upload.value("header", json::object());
    if (url.empty()) refuse_answer("LFS batch");
    const SharedBytes bytes = map_file(file.path);
    const Activity shown("uploading " + printable(file.name));
    if (header.contains("chunk_size")) {
      upload_parts(file, bytes.view, url, header);
    } else {
      const Answer answer = send("PUT", url, {}, as_text(bytes.view));
      require(answer, text("upload '{}'", file.name));
    }
    if (!actions.contains("verify")) return;
    const json proof = {{"oid", file.sha256}, {"size", file.size}};
    const Answer answer =
        send("POST", actions["verify"].value("href", ""), {kLfsJson, kLfsAccept}, proof.dump());
    require(answer, text("verify '{}'", file.name));
  }

  /// The numeric keys of `header` are the URLs of the parts.
  void upload_parts(const PushFile& file, ByteSpan bytes, const std::string& url,
                    const json& header) {
    const json& given = header["chunk_size"];
    const std::string digits = given.is_string() ? given.get<std::string>() : given.dump();
    const size_t chunk = std::strtoull(digits.c_str(), nullptr, 10);
    const size_t count = chunk == 0 ? 0 : (bytes.size() + chunk - 1) / chunk;
    json parts = json::array();
    for (size_t i = 0; i < count; ++i) {
      const std::string part_url = part_of(header, i + 1);
      const size_t size = std::min(chunk, bytes.size() - i * chunk);
      const Answer answer = send("PUT", part_url, {}, as_text(bytes.subspan(i * chunk, size)));
      require(answer, text("upload part {} of '{}'", i + 1, file.name));
      const std::string etag = answer.result.header("etag");
      if (etag.empty()) refuse_answer("upload");
      parts.push_back({{"partNumber", i + 1}, {"etag", etag}});
    }
    if (count == 0 || !part_of(header, count + 1, false).empty()) refuse_answer("LFS batch");
    const json body = {{"oid", file.sha256}, {"parts", parts}};
    const Answer answer = send("POST", url, {kLfsJson, kLfsAccept}, body.dump());
    require(answer, text("complete '{}'", file.name));
  }

  /// Its URL; the numbers may have leading zeros.
  std::string part_of(const json& header, size_t number, bool required = true) const {
    for (const auto& [key, value] : header.items()) {
      const bool is_number = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
        return c >= '0' && c <= '9';
      });
      if (is_number && std::strtoull(key.c_str(), nullptr, 10) == number && value.is_string()) {
        return value.get<std::string>();
      }
    }
    if (required) refuse_answer("LFS batch");
    return "";
  }

  std::string commit(const std::map<std::string, bool>& is_lfs) {
    std::string lines =
        json{{"key", "header"}, {"value", {{"summary", request_.message}, {"description", ""}}}}
            .dump() +
        "\n";
    for (const PushFile& file : request_.files) {
      json value = {{"path", file.name}};
      if (is_lfs.at(file.name)) {
        value.update({{"algo", "sha256"}, {"oid", file.sha256}, {"size", file.size}});
      } else {
        const SharedBytes bytes = map_file(file.path);
        value.update({{"content", base64(as_text(bytes.view))}, {"encoding", "base64"}});
      }
      lines += json{{"key", is_lfs.at(file.name) ? "lfsFile" : "file"}, {"value", value}}.dump();
      lines += "\n";
    }
    const Answer answer = send("POST", api_ + "/commit/main", {kNdjson}, lines);
    require(answer, "commit the files");
    const std::string url = parsed(answer).value("commitUrl", "");
    return url.empty() ? address_.endpoint + "/" + request_.name.repository : printable_url(url);
  }

  /// With retries; the token goes to the hub only.
  Answer send(const char* method, const std::string& url, const std::vector<std::string>& headers,
              std::string_view body) {
    HttpQuery query{.url = url, .headers = headers, .method = method, .body = as_bytes(body)};
    auto pause = retry_.pause;
    for (int i = 1;; ++i) {
      Answer answer;
      answer.result = perform_following(client_, query, credential_,
                                        [&](const HttpResult&, std::string_view bytes) {
                                          answer.body.append(bytes);
                                          return answer.body.size() <= kMostOfAnAnswer;
                                        });
      if (answer.is_done() || !is_transient(answer.result) || i >= retry_.attempts) return answer;
      std::this_thread::sleep_for(pause);
      pause *= 2;
    }
  }

  void require(const Answer& answer, const std::string& action) const {
    if (answer.is_done()) return;
    const int status = answer.result.status;
    const std::string who = single_quoted(request_.name.repository);
    if (status == 401 || status == 403) {
      throw Error(ExitCode::kData,
                  text("the hub refuses to {} for {}: it answered {}", action, who, status),
                  address_.token.empty() ? "set HF_TOKEN to a token with write access"
                                         : "check that the token has write access");
    }
    const std::string why =
        answer.result.error.empty() ? text("the server answered {}", status) : answer.result.error;
    throw IoError(text("cannot {} for {}: {}", action, who, why),
                  "nothing is committed: run the same command again; uploaded files are kept");
  }

  static json parsed(const Answer& answer) {
    json out = json::parse(answer.body, nullptr, false);
    return out.is_object() ? out : json::object();
  }

  [[noreturn]] void refuse_answer(const char* what) const {
    throw DataError(text("the answer to '{}' of '{}' is not one of the hub", what,
                         origin_of_url(address_.endpoint)),
                    "check HF_ENDPOINT");
  }

  HttpClient& client_;
  const PushRequest& request_;
  const HubAddress& address_;
  const RetryPolicy& retry_;
  const Credential credential_;
  const std::string api_;
};

}  // namespace

std::vector<PushFile> files_to_push(const fs::path& folder) {
  std::vector<PushFile> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) {
      throw DataError(text("'{}' is not a file", entry.path().string()),
                      "push a folder that 'accel-run export' wrote, which has files only");
    }
    const SharedBytes bytes = map_file(entry.path());
    out.push_back({entry.path().filename(), entry.path(), static_cast<int64_t>(bytes.view.size()),
                   digest_of(Digest::Kind::kSha256, as_text(bytes.view))});
  }
  std::sort(out.begin(), out.end(),
            [](const PushFile& a, const PushFile& b) { return a.name < b.name; });
  if (out.empty()) throw DataError(text("'{}' has no files", folder.string()));
  return out;
}

std::string push_files(HttpClient& client, const PushRequest& request, const HubAddress& address,
                       const RetryPolicy& retry) {
  return Push(client, request, address, retry).run();
}

}  // namespace accel
