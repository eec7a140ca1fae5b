// Drafts: files in the folder of the file that they replace by a rename.
#pragma once

#include <string>

namespace accel {

/// "a/b.12.new" for "a/b" and process 12, this one: processes do not share a draft.
std::string draft_of(const std::string& path);

/// Removes the drafts that killed processes left in `folder` and the folders inside it. Only for a
/// folder of this process: elsewhere the process of a draft may run on another machine. Errors are
/// ignored, since a draft does no harm to accel-run.
void remove_drafts(const std::string& folder) noexcept;

}  // namespace accel
