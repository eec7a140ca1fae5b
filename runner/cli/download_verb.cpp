// download: models and datasets of the hub, and data sets of known makers.
#include <algorithm>

#include "core/hub_cache.h"
#include "core/log.h"
#include "data/downloaded_set.h"
#include "runner/cli/verbs.h"
#include "runner/fetch/hub.h"
#include "runner/fetch/known_sets.h"
#include "runner/launch/rank_place.h"

namespace accel {
namespace {

constexpr auto kMirrorVariable = "ACCEL_RUN_MIRROR";

const KnownSet& set_named(const std::string& what) {
  std::vector<std::string> names;
  for (const KnownSet& set : known_sets()) {
    if (what == set.name) return set;
    names.emplace_back(set.name);
  }
  std::string all;
  for (const std::string& name : names) all.append("'").append(name).append("' or ");
  const std::string near = did_you_mean(what, names);
  throw Error(ExitCode::kRecipe, "there is no download named '" + what + "'",
              near.empty() ? "give " + all + "'hf:organisation/name'" : near);
}

std::string folder_for(const KnownSet& set, const std::string& target) {
  const std::string folder = target.empty() ? downloaded_set_folder(set.name).string() : target;
  if (!folder.empty()) return folder;
  throw IoError("there is no place for downloads: neither XDG_CACHE_HOME nor HOME is set",
                "name a folder with '--to'");
}

}  // namespace

ExitCode download_verb(const DownloadArguments& arguments) {
  const std::string& what = arguments.what;
  const std::string& target = arguments.target;
  const FetchPatience patience{.say = &say};
  if (what.starts_with(kHubPrefix)) {
    HubName name = parse_hub_name(what);
    name.files = arguments.files;
    const HubAddress address = hub_address(&environment_variable);
    const auto client = make_curl_client();
    const auto folder = download_repository(*client, name, address, target, patience);
    say((name.files.empty() ? "all files of '" : "those files of '") + name.repository +
        "' are in " + folder.string());
    return ExitCode::kDone;
  }
  if (!arguments.files.empty()) {
    throw Error(ExitCode::kRecipe, "'--files' is for what is of the hub, and '" + what + "' is not",
                "leave it out");
  }
  const KnownSet& set = set_named(what);
  const std::string folder = folder_for(set, target);
  const std::string mirror = environment_variable(kMirrorVariable).value_or("");
  const auto client = make_curl_client();
  download_set(*client, set, mirror, folder, patience);
  say("all files of " + what + " are in " + folder + "; in a recipe they are {type: " + set.name +
      (target.empty() ? "}" : ", path: " + folder + "}"));
  return ExitCode::kDone;
}

}  // namespace accel
