#include "runner/cli/checkpoint_path.h"

#include <filesystem>

#include "core/error.h"
#include "core/scalar.h"
#include "core/units.h"
#include "runner/checkpoint/store.h"

namespace accel {

namespace fs = std::filesystem;

bool is_run(const std::string& path) {
  std::error_code error;
  const fs::path run = path;
  return fs::is_directory(run / "checkpoints", error) || fs::exists(run / "recipe.yaml", error);
}

/// A checkpoint as it was given, or the newest one of a run folder.
std::string checkpoint_at(DiskFiles& files, const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) {
    throw IoError("cannot look at '" + path + "': " + error.message());
  }
  if (status.type() != fs::file_type::directory) {
    throw Error(ExitCode::kRecipe, "'" + path + "' is no folder",
                "give a run folder, or one of its checkpoints");
  }
  if (!is_run(path)) return path;
  const auto entries = CheckpointStore(files, path).list();
  if (entries.empty()) throw CheckpointError("'" + path + "' has no checkpoints");
  return entries.back().path;
}

std::string new_folder(const std::string& path) {
  fs::path target = fs::path(path).lexically_normal();
  if (target.filename().empty()) target = target.parent_path();
  if (target.empty()) {
    throw Error(ExitCode::kRecipe, "the target has no name", "name a folder that is not there yet");
  }
  std::error_code error;
  if (fs::exists(fs::symlink_status(target, error))) {
    throw Error(ExitCode::kRecipe, "'" + path + "' is there already",
                "name a folder that is not: nothing is ever written over");
  }
  return target.string();
}

uint64_t shard_bytes(const std::string& text) {
  const Parsed<ByteSize> size = parse_byte_size({text, false});
  if (!size.value || size.value->bytes <= 0) {
    throw Error(ExitCode::kRecipe, "'--max-shard-size' wants a size, not '" + text + "'",
                size.hint.empty() ? "such as '5 GB' or '500 MiB'" : size.hint);
  }
  return static_cast<uint64_t>(size.value->bytes);
}

std::string listing_text(const std::vector<DirEntry>& entries) {
  std::string out;
  for (const DirEntry& entry : entries) {
    const bool folder = entry.kind == DirEntry::Kind::kFolder;
    out +=
        "  " + entry.name + (folder ? "/" : "  " + std::to_string(entry.bytes) + " bytes") + "\n";
  }
  return out;
}

}  // namespace accel
