// Uploads of model folders to the Hugging Face hub or a server with its HTTP API.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/base/http_client.h"
#include "runner/fetch/fetch_file.h"
#include "runner/fetch/sources.h"

namespace accel {

/// A file to upload.
struct PushFile {
  std::string name;  ///< in the repository
  std::filesystem::path path;
  int64_t size = 0;
  std::string sha256;
};

/// The files at the top level of a folder, by name. Throws DataError for a folder without a file
/// and for folders in it, which a model on the hub does not have.
std::vector<PushFile> files_to_push(const std::filesystem::path& folder);

struct PushRequest {
  HubName name;             ///< a model, without a revision: branch main
  bool is_private = false;  ///< of a repository that does not exist yet
  std::string message;      ///< of the commit
  std::vector<PushFile> files;
};

/// Creates the repository if it does not exist, uploads files of the hub's choice as LFS objects,
/// in parts where the server asks for them, and commits all files at once: readers see the old
/// files or the new ones. Objects that the hub has are not sent again. Returns the URL of the
/// commit. Throws IoError, DataError for an answer that is none of the hub's, and Error for a
/// refused token; messages never contain the token.
std::string push_files(HttpClient& client, const PushRequest& request, const HubAddress& address,
                       const RetryPolicy& retry = {});

}  // namespace accel
