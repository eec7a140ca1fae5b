// Which commit is checked out.
#pragma once

#include <filesystem>

#include "core/tracker.h"

namespace accel {

/// Of the checkout that `folder` lies in, read from git's own files; all empty outside of one.
GitState git_state(const std::filesystem::path& folder);

}  // namespace accel
