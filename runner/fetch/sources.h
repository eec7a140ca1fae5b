// Sources of downloads: common datasets, and the Hugging Face hub with huggingface_hub's cache.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/recipe/interpolate.h"
#include "runner/fetch/fetch_file.h"

namespace accel {

struct KnownFile {
  const char* name;
  int64_t size;     ///< in bytes
  const char* md5;  ///< as published by its authors
};

struct KnownSet {
  const char* name;  ///< "mnist", also of the dataset that reads it
  const char* base;  ///< base URL of the files
  std::vector<KnownFile> files;
};

/// All known datasets.
std::span<const KnownSet> known_sets();

/// Downloads the set into `folder`. A non-empty `mirror` replaces the server. Throws IoError,
/// DataError, and Error for a 4xx response.
void download_set(HttpClient& client, const KnownSet& set, const std::string& mirror,
                  const std::filesystem::path& folder, const RetryPolicy& retry = {});

/// A repository: `hf:org/name`, `hf:org/name@revision`, `hf:datasets/org/name`.
struct HubName {
  std::string repository;
  std::string revision = "main";
  bool dataset = false;
  std::vector<std::string> files = {};  ///< patterns; empty: all files of the model or dataset

  const char* kind() const { return dataset ? "dataset" : "model"; }
  /// "datasets/org/name", as in URLs of the hub.
  std::string url_path() const;
};

/// Throws Error(kRecipe) for an invalid name.
HubName parse_hub_name(const std::string& text);

/// A file in a listing of the hub.
struct HubFile {
  std::string name;
  std::string etag;  ///< checksum and blob name: SHA-256, or git's SHA-1
  int64_t size = 0;  ///< in bytes
};

struct HubListing {
  std::string commit;
  std::vector<HubFile> files;  ///< the selected ones
};

/// Parses the hub's listing of files. Throws DataError for an invalid listing and for names,
/// checksums or commits that would escape the folder.
HubListing read_hub_listing(const HubName& name, const std::string& text);

/// Endpoint, token and cache of the hub, from HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE and
/// HF_HUB_OFFLINE or their defaults.
struct HubAddress {
  std::string endpoint = "https://huggingface.co";
  std::string token;
  std::filesystem::path cache;
  bool offline = false;
};

HubAddress hub_address(const EnvironmentLookup& environment);

/// Downloads a model's config, weights and tokenizer, or a dataset's files. `target` empty: into
/// the cache, as blobs/, refs/ and snapshots/. Returns their folder. Throws Error, IoError
/// and DataError; messages never contain the token.
std::filesystem::path download_repository(HttpClient& client, const HubName& name,
                                          const HubAddress& address,
                                          const std::filesystem::path& target,
                                          const RetryPolicy& retry = {});

/// Selects the files of a model: JSON, tokenizer and safetensors at the top level; PyTorch weights
/// if there are no others.
std::vector<std::string> files_of_model(const std::vector<std::string>& all);

/// Selects the files of a dataset: README.md, which names configs and splits, and tables and texts
/// in any folder.
std::vector<std::string> files_of_dataset(const std::vector<std::string>& all);

}  // namespace accel
