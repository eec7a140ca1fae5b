#include "train/loop/shared_checkpoint.h"

#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <vector>

#include "checkpoint/manifest.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "data/datasets/fingerprint.h"
#include "parallel/operations.h"
#include "train/job/build_strategy.h"
#include "train/loop/rank_errors.h"
#include "train/loop/shards.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// Begins a request to verify a checkpoint, and an answer that it is damaged; no path begins so.
constexpr char kMark = '\1';

/// map_file() of a file of a checkpoint.
SharedBytes checkpoint_bytes(const std::string& path) {
  try {
    return map_file(path);
  } catch (const DataError& error) {
    throw CheckpointError(error.what(), error.hint());
  }
}

/// Digest of a checkpoint as this machine reads it: of its manifest, which has the checksums of all
/// files, or of the names and sizes of another program's files.
std::string checkpoint_digest(const std::string& path) {
  const fs::path manifest = fs::path(path) / kManifestFile;
  if (fs::exists(manifest)) {
    return Fingerprint().add_content(checkpoint_bytes(manifest).view).text();
  }
  std::map<std::string, int64_t> sizes;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const bool file = entry.is_regular_file();
    sizes[entry.path().filename()] = file ? static_cast<int64_t>(entry.file_size()) : 0;
  }
  Fingerprint digest;
  for (const auto& [name, size] : sizes) digest.add(name).add(size);
  return digest.text();
}

/// The path in a text of rank 0, after a check that this rank sees the same checkpoint.
std::string checked_path(const Job& job, const std::string& text_of_rank_0) {
  const size_t end = text_of_rank_0.find('/');  // paths are absolute
  const std::string digest = text_of_rank_0.substr(0, end), path = text_of_rank_0.substr(end);
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    throw CheckpointError(
        text("{} cannot read '{}', from which rank 0 resumes", rank_name(job, job.rank), path),
        "put the run folder on a file system that all machines share");
  }
  if (checkpoint_digest(path) == digest) return path;
  throw CheckpointError(text("{} has another '{}' than rank 0", rank_name(job, job.rank), path),
                        "put the run folder on a file system that all machines share, or give "
                        "all machines the same checkpoint");
}

/// What this rank finds in its share of the files: "", kMark with the damage, or an error_text().
std::string verified_share(const Job& job, Files& files, const std::string& path) {
  try {
    verify_share(files, path, job.rank, job.num_ranks);
    return "";
  } catch (const CheckpointError& error) {
    return kMark + std::string(error.what()) + '\0' + error.hint();
  } catch (const std::exception& error) {
    return error_text(error);
  }
}

/// All ranks call it; throws the first rank's error on each of them.
void exchange_answers(const Job& job, const std::string& own) {
  for (const std::string& answer : gather_texts(*job.mesh.world, own)) {
    throw_if_error(answer);
    if (!answer.starts_with(kMark)) continue;
    const size_t hint = answer.find('\0');
    throw CheckpointError(answer.substr(1, hint - 1), answer.substr(hint + 1));
  }
}

void verify_for_rank_0(const Job& job, Files& files, const std::string& request) {
  std::string own;
  try {
    own = verified_share(job, files, checked_path(job, request));
  } catch (const std::exception& error) {
    own = error_text(error);
  }
  try {
    exchange_answers(job, own);
  } catch (const CheckpointError&) {  // rank 0 takes an older one
  }
}

std::string named(const std::string& path) {
  const std::string absolute = fs::absolute(path).string();
  return checkpoint_digest(absolute) + absolute;
}

}  // namespace

LoadOptions load_options(const Job& job, Files& files) {
  LoadOptions out;
  out.region_of = region_of(job);
  if (job.num_ranks == 1) return out;
  if (!job.is_main) {
    out.verify = [](const std::string&) {};
    return out;
  }
  out.verify = [&job, &files](const std::string& path) {
    inspect_checkpoint(files, path);  // throws before the other ranks wait
    broadcast_text(*job.mesh.world, kMark + named(path));
    exchange_answers(job, verified_share(job, files, path));
  };
  return out;
}

void send_checkpoint(const Job& job, const std::string& path) {
  broadcast_text(*job.mesh.world, path.empty() ? "" : named(path));
}

void send_refusal(const Job& job, const std::exception& error) {
  broadcast_text(*job.mesh.world, error_text(error));
}

std::string receive_checkpoint(const Job& job, Files& files) {
  while (true) {
    const std::string received = broadcast_text(*job.mesh.world, "");
    throw_if_error(received);
    if (!received.starts_with(kMark)) return received.empty() ? "" : checked_path(job, received);
    verify_for_rank_0(job, files, received.substr(1));
  }
}

}  // namespace accel
