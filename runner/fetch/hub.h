// Models and datasets of the Hugging Face hub, into the cache that its own tools use.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/interpolate.h"
#include "runner/fetch/fetch_file.h"

namespace accel {

/// Which model or dataset: `hf:org/name`, `hf:org/name@revision`, `hf:datasets/org/name`.
struct HubName {
  std::string repository;
  std::string revision = "main";
  bool dataset = false;
  std::vector<std::string> files = {};  ///< patterns of those wanted; empty: all that it is made of

  const char* kind() const { return dataset ? "dataset" : "model"; }
  /// "datasets/org/name": as the hub's addresses have it.
  std::string place() const;
};

/// Throws Error(kRecipe) for what is no such name.
HubName parse_hub_name(const std::string& text);

/// One file, as the hub lists it.
struct HubFile {
  std::string name;
  std::string etag;  ///< its checksum, and its name among the blobs: SHA-256, or git's SHA-1
  int64_t size = 0;  ///< in bytes
};

struct HubListing {
  std::string commit;
  std::vector<HubFile> files;  ///< those that are wanted
};

/// What the hub answers when asked for the files. Throws DataError for what is no listing,
/// and for names, checksums and commits that would lead out of the folder.
HubListing read_hub_listing(const HubName& name, const std::string& text);

/// Where the hub is and who asks, as HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE and
/// HF_HUB_OFFLINE say, or Hugging Face's own places.
struct HubAddress {
  std::string endpoint = "https://huggingface.co";
  std::string token;
  std::filesystem::path cache;
  bool offline = false;
};

HubAddress hub_address(const Lookup& environment);

/// Downloads a model's config, weights and tokenizer, or a dataset's files. `target` empty: into
/// the cache, as blobs/, refs/ and snapshots/. Returns the folder that has them. Throws Error,
/// IoError and DataError; no message has the token.
std::filesystem::path download_repository(HttpClient& client, const HubName& name,
                                          const HubAddress& address,
                                          const std::filesystem::path& target,
                                          const FetchPatience& patience = {});

/// Of the files of a repository those that a model is made of: its JSON, tokenizer and safetensors
/// at the top; PyTorch's own weights where it has no others.
std::vector<std::string> files_of_model(const std::vector<std::string>& all);

/// Those that a dataset is made of: its README.md, which names configs and splits, and tables and
/// texts in any folder.
std::vector<std::string> files_of_dataset(const std::vector<std::string>& all);

}  // namespace accel
