#include "runner/fetch/sources.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/glob.h"
#include "core/base/hub_cache.h"
#include "core/base/text.h"
#include "core/base/url.h"
#include "core/base/utf8.h"
#include "core/base/whole_number.h"
#include "formats/strict_json.h"
#include "formats/untrusted.h"

namespace accel {

std::span<const KnownSet> known_sets() {
  static const std::vector<KnownSet> sets = {
      {"mnist",
       "https://ossci-datasets.s3.amazonaws.com/mnist",
       {{"train-images-idx3-ubyte.gz", 9912422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"},
        {"train-labels-idx1-ubyte.gz", 28881, "d53e105ee54ea40749a09fcbcd1e9432"},
        {"t10k-images-idx3-ubyte.gz", 1648877, "9fb629c4189551a2d022fa330f9573f3"},
        {"t10k-labels-idx1-ubyte.gz", 4542, "ec29112dd5afa0611ce80d1b7f02629c"}}},
      {"cifar10",
       "https://www.cs.toronto.edu/~kriz",
       {{"cifar-10-binary.tar.gz", 170052171, "c32a1d4ab5d03f1284b67883e8d87530"}}},
      {"sst2",
       "https://dl.fbaipublicfiles.com/glue/data",
       {{"SST-2.zip", 7439277, "9f81648d4199384278b86e315dac217c"}}},
  };
  return sets;
}

void download_set(HttpClient& client, const KnownSet& set, const std::string& mirror,
                  const std::filesystem::path& folder, const RetryPolicy& retry) {
  const std::string base = mirror.empty() ? set.base : mirror;
  for (const KnownFile& file : set.files) {
    if (retry.say) retry.say(text("{}, {} bytes", file.name, file.size));
    FetchRequest request;
    request.url = base + "/" + file.name;
    request.target = folder / file.name;
    request.name = file.name;
    request.size = file.size;
    request.digest = Digest::Kind::kMd5;
    request.digest_hex = file.md5;
    try {
      fetch_file(client, request, {}, retry);
    } catch (const FetchRefused& refused) {
      throw IoError(text("'{}' refuses '{}' with {}", origin_of_url(base), file.name,
                         refused.result().status),
                    "set ACCEL_RUN_MIRROR to a mirror of it");
    }
  }
}

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t kMaxListing = 16 << 20;
constexpr int kMaxListingDepth = 32;
constexpr auto kHubReadme = "README.md";  // names a dataset's configs and splits

bool is_hex(const std::string& text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

/// Names of repositories and branches, free of characters special in paths or URLs.
bool is_hub_word(const std::string& text) {
  return !text.empty() && text.size() <= 96 && text.front() != '.' && text.front() != '-' &&
         text.find("..") == text.npos && std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
         });
}

[[noreturn]] void refuse_listing(const HubName& name, const std::string& fault) {
  throw DataError(text("the hub's listing of '{}' {}", name.repository, fault),
                  "check that HF_ENDPOINT names a hub");
}

HubFile read_file_entry(const HubName& name, const Json& entry) {
  HubFile file;
  file.name = entry.at("rfilename").get<std::string>();
  const Json lfs = entry.value("lfs", Json());
  file.etag =
      lfs.is_object() ? lfs.at("sha256").get<std::string>() : entry.at("blobId").get<std::string>();
  if (!is_hex(file.etag, lfs.is_object() ? 64 : 40)) {
    refuse_listing(name, text("has no checksum of '{}'", printable(file.name)));
  }
  const auto size = whole_number<int64_t>((lfs.is_object() ? lfs : entry).at("size"));
  if (!size || *size < 0) refuse_listing(name, text("has no size of '{}'", printable(file.name)));
  file.size = *size;
  return file;
}

/// The x-error-code header of the hub gives the reason.
[[noreturn]] void explain(const HubName& name, const HubAddress& address,
                          const FetchRefused& refused) {
  const auto& headers = refused.result().headers;
  const auto found = headers.find("x-error-code");
  const std::string code = found == headers.end() ? "" : found->second;
  const int status = refused.result().status;
  const std::string who = single_quoted(name.repository);
  const std::string ask = address.token.empty()
                              ? "set HF_TOKEN to a token with read access"
                              : "check that the token in HF_TOKEN has read access";
  if (code == "GatedRepo" || status == 403) {
    throw Error(ExitCode::kData, text("{} is a gated repository", who),
                text("request access at {}/{}, and {}", address.endpoint, name.url_path(), ask));
  }
  if (code == "RevisionNotFound") {
    throw Error(ExitCode::kRecipe, text("{} has no revision '{}'", who, name.revision),
                "give a branch, a tag or a commit after the '@'");
  }
  if (status == 401 && code != "RepoNotFound") {
    throw Error(ExitCode::kData, text("the hub rejects the token for {}", who), ask);
  }
  if (status == 404 || code == "RepoNotFound") {
    throw Error(ExitCode::kRecipe, text("the hub has no {} {}, or it is private", name.kind(), who),
                text("{}, or check the name", ask));
  }
  throw IoError(text("the hub refuses {} with {}", who, status));
}

/// Percent-encoded; slashes in a branch's name are encoded as well.
std::string escaped(const std::string& text, bool slashes) {
  constexpr auto kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 0x80 && (std::isalnum(byte) || c == '-' || c == '_' || c == '.' ||
                                       (c == '/' && !slashes));
    if (plain) {
      out += c;
    } else {
      out.append(1, '%').append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
    }
  }
  return out;
}

std::vector<std::string> wanted_files(const HubName& name, const std::vector<std::string>& all) {
  if (name.files.empty()) return name.dataset ? files_of_dataset(all) : files_of_model(all);
  std::vector<std::string> out;
  for (const std::string& file : all) {
    const bool wanted =
        std::any_of(name.files.begin(), name.files.end(),
                    [&](const std::string& pattern) { return path_matches(pattern, file); });
    if (wanted || (name.dataset && file == kHubReadme)) out.push_back(file);
  }
  return out;
}

/// Relative path from a snapshot's file to its blob.
fs::path blob_from(const std::string& name, const std::string& etag) {
  fs::path up = "../..";
  for (const char c : name) {
    if (c == '/') up /= "..";
  }
  return up / "blobs" / etag;
}

/// Replaces the link of an earlier, failed attempt.
void make_link(const fs::path& link, const fs::path& to) {
  const fs::path fresh = link.string() + ".new";
  std::error_code error;
  fs::create_directories(link.parent_path());
  fs::remove(fresh, error);
  fs::create_symlink(to, fresh, error);
  if (error) throw IoError(text("cannot write '{}': {}", link.string(), error.message()));
  publish_file(fresh, link);
}

/// Downloads a repository file by file.
class HubDownload {
 public:
  HubDownload(HttpClient& client, const HubName& name, const HubAddress& address,
              const RetryPolicy& retry)
      : client_(client),
        name_(name),
        address_(address),
        patience_(retry),
        credential_{origin_of_url(address.endpoint), address.token} {}

  HubListing listing() {
    const std::string url = address_.endpoint + "/api/" + (name_.dataset ? "" : "models/") +
                            name_.url_path() + "/revision/" + escaped(name_.revision, true) +
                            "?blobs=true";
    return read_hub_listing(name_, fetch_text(client_, url, kMaxListing, credential_, patience_));
  }

  void fetch(const HubListing& listing, const HubFile& file, const fs::path& target) {
    FetchRequest request;
    request.url = address_.endpoint + "/" + name_.url_path() + "/resolve/" + listing.commit + "/" +
                  escaped(file.name, false);
    request.target = target;
    request.name = file.name;
    request.size = file.size;
    request.git_blob = file.etag.size() == 40;
    request.digest = request.git_blob ? Digest::Kind::kSha1 : Digest::Kind::kSha256;
    request.digest_hex = file.etag;
    fetch_file(client_, request, credential_, patience_);
  }

 private:
  HttpClient& client_;
  const HubName& name_;
  const HubAddress& address_;
  const RetryPolicy& patience_;
  Credential credential_;
};

}  // namespace

/// Validates every name, also of files that are not selected: one escaping name makes the whole
/// listing untrustworthy.
HubListing read_hub_listing(const HubName& name, const std::string& text) {
  HubListing out;
  try {
    MemoryBudget budget(text.size(), "the listing");
    const Json listing = parse_strict_json(text, "the listing", kMaxListingDepth, budget);
    out.commit = listing.at("sha").get<std::string>();
    if (!is_hex(out.commit, 40)) refuse_listing(name, "has no commit");
    std::vector<std::string> names;
    for (const Json& entry : listing.at("siblings")) {
      names.push_back(entry.at("rfilename").get<std::string>());
      if (names.back().empty()) refuse_listing(name, "names the file ''");
      for (const fs::path& part : fs::path(names.back())) {
        const bool hidden = part.string().size() > 1 && part.string()[0] == '.' &&
                            is_plain_file_name(part.string().substr(1));
        if (is_plain_file_name(part.string()) || hidden) continue;
        refuse_listing(name, accel::text("names the file '{}', which escapes the folder",
                                         printable(names.back())));
      }
    }
    const std::vector<std::string> wanted = wanted_files(name, names);
    for (const Json& entry : listing.at("siblings")) {
      const bool has = std::find(wanted.begin(), wanted.end(),
                                 entry.at("rfilename").get<std::string>()) != wanted.end();
      if (has) out.files.push_back(read_file_entry(name, entry));
    }
  } catch (const FormatError& error) {
    refuse_listing(name, accel::text("is not readable: {}", error.what()));
  } catch (const Json::exception&) {
    refuse_listing(name, "lacks a required field");
  }
  return out;
}

std::string HubName::url_path() const {
  return dataset ? std::string(kHubDatasets).append(repository) : repository;
}

HubName parse_hub_name(const std::string& text) {
  HubName out;
  std::string rest = text.starts_with(kHubPrefix) ? text.substr(kHubPrefix.size()) : "";
  out.dataset = rest.starts_with(kHubDatasets);
  if (out.dataset) rest.erase(0, kHubDatasets.size());
  const size_t at = std::min(rest.find('@'), rest.size());
  out.repository = rest.substr(0, at);
  if (at < rest.size()) out.revision = rest.substr(at + 1);
  bool good = std::count(out.repository.begin(), out.repository.end(), '/') <= 1;
  for (const std::string& words : {out.repository, out.revision}) {
    for (size_t begin = 0; begin <= words.size();) {
      const size_t end = std::min(words.find('/', begin), words.size());
      good = good && is_hub_word(words.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  if (good) return out;
  throw Error(ExitCode::kRecipe,
              accel::text("'{}' is not a model or dataset of the hub", printable(text)),
              "write 'hf:organisation/name', 'hf:organisation/name@revision' or "
              "'hf:datasets/organisation/name'");
}

HubAddress hub_address(const EnvironmentLookup& environment) {
  HubAddress out;
  const auto value = [&](const char* name) { return environment(name).value_or(""); };
  if (const std::string endpoint = value("HF_ENDPOINT"); !endpoint.empty()) {
    out.endpoint = endpoint.substr(0, endpoint.find_last_not_of('/') + 1);
  }
  out.cache = hub_cache_folder(environment);
  const std::string offline = value("HF_HUB_OFFLINE");
  out.offline = offline == "1" || offline == "true" || offline == "TRUE" || offline == "ON" ||
                offline == "YES";
  out.token = value("HF_TOKEN");
  if (out.token.empty() && !out.cache.empty()) {
    std::ifstream file(hub_home_folder(environment) + "/token");
    std::getline(file, out.token);
  }
  // A line feed would inject a header.
  out.token.erase(std::remove_if(out.token.begin(), out.token.end(),
                                 [](unsigned char c) { return c <= ' ' || c >= 0x7f; }),
                  out.token.end());
  return out;
}

std::vector<std::string> files_of_model(const std::vector<std::string>& all) {
  std::vector<std::string> out;
  const auto ends = [](const std::string& name, std::initializer_list<const char*> endings) {
    return std::any_of(endings.begin(), endings.end(),
                       [&](const char* ending) { return name.ends_with(ending); });
  };
  const bool safe = std::any_of(all.begin(), all.end(), [](const std::string& name) {
    return name.find('/') == name.npos && name.ends_with(".safetensors");
  });
  for (const std::string& name : all) {
    if (name.find('/') != name.npos || name.starts_with('.')) continue;
    const bool pickled =
        name.starts_with("pytorch_model") && ends(name, {".bin", ".bin.index.json"});
    const bool text = ends(name, {".json", ".txt", ".model", ".jinja"}) && !pickled;
    if (text || name.ends_with(".safetensors") || (pickled && !safe)) out.push_back(name);
  }
  return out;
}

std::vector<std::string> files_of_dataset(const std::vector<std::string>& all) {
  std::vector<std::string> out;
  for (const std::string& name : all) {
    const fs::path path = name;
    const bool hidden = std::any_of(path.begin(), path.end(), [](const fs::path& part) {
      return part.string().starts_with('.');
    });
    static const std::set<std::string> kTables = {".parquet", ".arrow", ".jsonl", ".ndjson",
                                                  ".json",    ".csv",   ".tsv",   ".txt"};
    if (name == kHubReadme || (!hidden && kTables.contains(path.extension().string()))) {
      out.push_back(name);
    }
  }
  return out;
}

fs::path download_repository(HttpClient& client, const HubName& name, const HubAddress& address,
                             const fs::path& target, const RetryPolicy& retry) {
  if (address.offline) {
    throw Error(ExitCode::kIo, "HF_HUB_OFFLINE is set: downloads are disabled",
                text("unset it to download '{}'", name.repository));
  }
  if (target.empty() && address.cache.empty()) {
    throw Error(ExitCode::kIo, "no folder for downloads", "set HF_HOME, or give one with --to");
  }
  HubDownload download(client, name, address, retry);
  try {
    const HubListing listing = download.listing();
    const bool found = std::any_of(listing.files.begin(), listing.files.end(),
                                   [](const HubFile& file) { return file.name != kHubReadme; });
    if (!found) {
      throw DataError(
          name.files.empty()
              ? text("'{}' has no files of a {}", name.repository, name.kind())
              : text("'{}' has no files like '{}'", name.repository, name.files.front()));
    }
    const fs::path repository = address.cache / hub_folder_name(name.url_path());
    const fs::path snapshot = repository / "snapshots" / listing.commit;
    for (const HubFile& file : listing.files) {
      if (retry.say) retry.say(text("{}, {} bytes", file.name, file.size));
      if (!target.empty()) {
        download.fetch(listing, file, target / file.name);
        continue;
      }
      download.fetch(listing, file, repository / "blobs" / file.etag);
    }
    if (!target.empty()) return target;
    // Written last, so that a ref never names an incomplete snapshot.
    for (const HubFile& file : listing.files) {
      make_link(snapshot / file.name, blob_from(file.name, file.etag));
    }
    if (name.revision != listing.commit) {
      write_file_with_folder(repository / "refs" / name.revision, listing.commit);
    }
    return snapshot;
  } catch (const FetchRefused& refused) {
    explain(name, address, refused);
  }
}

}  // namespace accel
