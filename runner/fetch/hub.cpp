#include "runner/fetch/hub.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/hub_cache.h"
#include "core/utf8.h"
#include "core/whole_number.h"
#include "runner/formats/path_glob.h"
#include "runner/formats/plain_file_name.h"
#include "runner/formats/strict_json.h"

namespace accel {
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

/// Names of models, people and branches; nothing that a path or an address gives a meaning to.
bool is_hub_word(const std::string& text) {
  return !text.empty() && text.size() <= 96 && text.front() != '.' && text.front() != '-' &&
         text.find("..") == text.npos && std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
         });
}

[[noreturn]] void refuse_listing(const HubName& name, const std::string& what) {
  throw DataError("what the hub tells of '" + name.repository + "' " + what,
                  "see whether HF_ENDPOINT names a hub");
}

HubFile read_file_entry(const HubName& name, const Json& entry) {
  HubFile file;
  file.name = entry.at("rfilename").get<std::string>();
  const Json lfs = entry.value("lfs", Json());
  file.etag =
      lfs.is_object() ? lfs.at("sha256").get<std::string>() : entry.at("blobId").get<std::string>();
  if (!is_hex(file.etag, lfs.is_object() ? 64 : 40)) {
    refuse_listing(name, "has no checksum of '" + printable(file.name) + "'");
  }
  const auto size = whole_number<int64_t>((lfs.is_object() ? lfs : entry).at("size"));
  if (!size || *size < 0) refuse_listing(name, "has no size of '" + printable(file.name) + "'");
  file.size = *size;
  return file;
}

/// The hub says in a header why.
[[noreturn]] void explain(const HubName& name, const HubAddress& address,
                          const FetchRefused& refused) {
  const auto& headers = refused.result().headers;
  const auto found = headers.find("x-error-code");
  const std::string code = found == headers.end() ? "" : found->second;
  const int status = refused.result().status;
  const std::string who = "'" + name.repository + "'";
  const std::string ask = address.token.empty() ? "set HF_TOKEN to a token that may read it"
                                                : "see whether the token in HF_TOKEN may read it";
  if (code == "GatedRepo" || status == 403) {
    throw Error(ExitCode::kData, who + " is given only to those who have asked for it",
                "ask for it at " + address.endpoint + "/" + name.place() + ", and " + ask);
  }
  if (code == "RevisionNotFound") {
    throw Error(ExitCode::kRecipe, who + " has no revision '" + name.revision + "'",
                "give a branch, a tag or a commit behind the '@'");
  }
  if (status == 401 && code != "RepoNotFound") {
    throw Error(ExitCode::kData, "the hub does not know who asks for " + who, ask);
  }
  if (status == 404 || code == "RepoNotFound") {
    throw Error(
        ExitCode::kRecipe,
        std::string("the hub has no ") + name.kind() + " " + who + ", or shows it to others only",
        ask + ", or see whether the name is right");
  }
  throw IoError("the hub refuses " + who + " with " + std::to_string(status));
}

/// As addresses have it; of slashes those in a branch's name mean nothing there.
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

/// From a file's name in the snapshot to its blob.
fs::path blob_from(const std::string& name, const std::string& etag) {
  fs::path up = "../..";
  for (const char c : name) {
    if (c == '/') up /= "..";
  }
  return up / "blobs" / etag;
}

/// The link takes the place of one of an earlier, broken attempt.
void make_link(const fs::path& link, const fs::path& to) {
  const fs::path fresh = link.string() + ".new";
  std::error_code error;
  fs::create_directories(link.parent_path());
  fs::remove(fresh, error);
  fs::create_symlink(to, fresh, error);
  if (!error) fs::rename(fresh, link, error);
  if (error) throw IoError("cannot write '" + link.string() + "': " + error.message());
}

void write_reference(const fs::path& path, const std::string& commit) {
  fs::create_directories(path.parent_path());
  const fs::path fresh = path.string() + ".new";
  std::ofstream out(fresh);
  out << commit;
  out.close();
  std::error_code error;
  if (out) fs::rename(fresh, path, error);
  if (!out || error) throw IoError("cannot write '" + path.string() + "'");
}

/// Fetches one repository, file by file.
class HubDownload {
 public:
  HubDownload(HttpClient& client, const HubName& name, const HubAddress& address,
              const FetchPatience& patience)
      : client_(client),
        name_(name),
        address_(address),
        patience_(patience),
        credential_{origin_of_url(address.endpoint), address.token} {}

  HubListing listing() {
    const std::string url = address_.endpoint + "/api/" + (name_.dataset ? "" : "models/") +
                            name_.place() + "/revision/" + escaped(name_.revision, true) +
                            "?blobs=true";
    return read_hub_listing(name_, fetch_text(client_, url, kMaxListing, credential_, patience_));
  }

  void fetch(const HubListing& listing, const HubFile& file, const fs::path& target) {
    FetchOrder order;
    order.url = address_.endpoint + "/" + name_.place() + "/resolve/" + listing.commit + "/" +
                escaped(file.name, false);
    order.target = target;
    order.name = file.name;
    order.size = file.size;
    order.git_blob = file.etag.size() == 40;
    order.digest = order.git_blob ? Digest::Kind::kSha1 : Digest::Kind::kSha256;
    order.digest_hex = file.etag;
    fetch_file(client_, order, credential_, patience_);
  }

 private:
  HttpClient& client_;
  const HubName& name_;
  const HubAddress& address_;
  const FetchPatience& patience_;
  Credential credential_;
};

}  // namespace

/// Every name is looked at, also those of files that are not wanted: a hub that plays tricks is not
/// to be trusted with the others.
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
        refuse_listing(
            name, "names the file '" + printable(names.back()) + "', which would lie elsewhere");
      }
    }
    const std::vector<std::string> wanted = wanted_files(name, names);
    for (const Json& entry : listing.at("siblings")) {
      const bool has = std::find(wanted.begin(), wanted.end(),
                                 entry.at("rfilename").get<std::string>()) != wanted.end();
      if (has) out.files.push_back(read_file_entry(name, entry));
    }
  } catch (const FormatError& error) {
    refuse_listing(name, std::string("is not readable: ") + error.what());
  } catch (const Json::exception&) {
    refuse_listing(name, "lacks what a listing has");
  }
  return out;
}

std::string HubName::place() const {
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
  throw Error(ExitCode::kRecipe, "'" + printable(text) + "' names no model or dataset of the hub",
              "write 'hf:organisation/name', 'hf:organisation/name@revision' or "
              "'hf:datasets/organisation/name'");
}

HubAddress hub_address(const Lookup& environment) {
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
  // A line feed would start another header.
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
                             const fs::path& target, const FetchPatience& patience) {
  if (address.offline) {
    throw Error(ExitCode::kIo, "HF_HUB_OFFLINE is set, so that nothing is downloaded",
                "unset it to download '" + name.repository + "'");
  }
  if (target.empty() && address.cache.empty()) {
    throw Error(ExitCode::kIo, "there is no folder for downloads",
                "set HF_HOME, or give one with --to");
  }
  HubDownload download(client, name, address, patience);
  try {
    const HubListing listing = download.listing();
    const bool found = std::any_of(listing.files.begin(), listing.files.end(),
                                   [](const HubFile& file) { return file.name != kHubReadme; });
    if (!found) {
      throw DataError("'" + name.repository + "' has no files " +
                      (name.files.empty() ? std::string("of a ") + name.kind()
                                          : "like '" + name.files.front() + "'"));
    }
    const fs::path repository = address.cache / hub_folder_name(name.place());
    const fs::path snapshot = repository / "snapshots" / listing.commit;
    for (const HubFile& file : listing.files) {
      if (patience.say) patience.say(file.name + ", " + std::to_string(file.size) + " bytes");
      if (!target.empty()) {
        download.fetch(listing, file, target / file.name);
        continue;
      }
      download.fetch(listing, file, repository / "blobs" / file.etag);
    }
    if (!target.empty()) return target;
    // Last, so that nothing is found whose files are not all there.
    for (const HubFile& file : listing.files) {
      make_link(snapshot / file.name, blob_from(file.name, file.etag));
    }
    if (name.revision != listing.commit) {
      write_reference(repository / "refs" / name.revision, listing.commit);
    }
    return snapshot;
  } catch (const FetchRefused& refused) {
    explain(name, address, refused);
  }
}

}  // namespace accel
