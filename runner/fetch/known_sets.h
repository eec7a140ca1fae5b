// Data sets that many start with, and where their files are.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/fetch/fetch_file.h"

namespace accel {

struct KnownFile {
  const char* name;
  int64_t size;     ///< in bytes
  const char* md5;  ///< as those who made the set publish it
};

struct KnownSet {
  const char* name;  ///< "mnist", also of the dataset that reads it
  const char* base;  ///< what the files' addresses begin with
  std::vector<KnownFile> files;
};

/// All of them, by name.
std::span<const KnownSet> known_sets();

/// Downloads the set into `folder`. `mirror` stands for the server when it is not empty. Throws
/// IoError, DataError, and Error for what a server refuses.
void download_set(HttpClient& client, const KnownSet& set, const std::string& mirror,
                  const std::filesystem::path& folder, const FetchPatience& patience = {});

}  // namespace accel
