// Commit, branch and remote of a git checkout.
#pragma once

#include <filesystem>

#include "core/api/tracker.h"

namespace accel {

/// The checkout that contains `folder`, read from git's files; empty fields outside a checkout.
GitState git_state(const std::filesystem::path& folder);

}  // namespace accel
