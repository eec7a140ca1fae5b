// Folder of a tracker: inside the run folder, or where its options say.
#pragma once

#include <string>

#include "core/api/tracker.h"

namespace accel {

/// Creates `folder` and its parents when a tracker is built, but not the run folder: it may have
/// been removed or moved. Throws IoError.
void make_tracker_folder(const TrackerContext& context, const std::string& folder);

}  // namespace accel
