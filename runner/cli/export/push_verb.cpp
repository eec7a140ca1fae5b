// push: a run's model, or an exported folder, to the Hugging Face hub.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "checkpoint/reader.h"
#include "core/base/build_info.h"
#include "core/base/files.h"
#include "core/base/hub_cache.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/base/url.h"
#include "runner/cli/checkpoints.h"
#include "runner/cli/cli.h"
#include "runner/cli/export/export_verb.h"
#include "runner/cli/trial.h"
#include "runner/fetch/model_card.h"
#include "runner/fetch/push.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct PushArguments {
  std::string source;      ///< a run folder, a checkpoint or an exported folder
  std::string repository;  ///< "org/name"
  std::string message;     ///< "" for the default
  std::string token;       ///< "${secret:NAME}"; "" for HF_TOKEN
  bool merge = false;
  bool is_private = false;
  bool dry_run = false;
};

constexpr auto kReadme = "README.md";

/// A token on a command line would be in the shell's history and in the list of processes.
std::string token_of(const std::string& reference) {
  constexpr std::string_view kBegin = "${secret:";
  if (!reference.starts_with(kBegin) || !reference.ends_with('}')) {
    throw Error(ExitCode::kRecipe, "'--token' is no reference to a secret",
                "write '${secret:NAME}' for the variable NAME, in single quotes");
  }
  const std::string name = reference.substr(kBegin.size(), reference.size() - kBegin.size() - 1);
  const auto value = environment_variable(name);
  if (!value || value->empty()) {
    throw Error(ExitCode::kRecipe, text("there is no secret '{}'", name),
                text("set the environment variable {}", name));
  }
  return *value;
}

HubName model_named(const std::string& repository) {
  HubName name = parse_hub_name(std::string(kHubPrefix) + repository);
  if (name.dataset || repository.find('@') != repository.npos ||
      repository.find('/') == repository.npos) {
    throw Error(ExitCode::kRecipe, text("'{}' is not a model to push to", repository),
                "write 'organisation/name'");
  }
  return name;
}

bool is_exported(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "config.json", error) ||
         fs::exists(folder / "adapter_config.json", error);
}

/// The files of the source, which is exported into `scratch` if it is a run, and a model card.
std::vector<PushFile> prepared_files(const PushArguments& arguments, const fs::path& scratch) {
  fs::path folder = arguments.source;
  std::string training = text("Exported by accel-run {}.", build_info().version);
  if (is_exported(folder)) {
    if (arguments.merge) {
      throw Error(ExitCode::kRecipe,
                  text("'--merge' has no effect: '{}' is exported already", arguments.source),
                  "leave it out, or push the run");
    }
  } else {
    DiskFiles files;
    const std::string checkpoint = checkpoint_at(files, arguments.source);
    training = text("Trained with accel-run {} for {} steps.", build_info().version,
                    inspect_checkpoint(files, checkpoint).state.progress.step);
    folder = scratch / "model";
    ExportArguments exported;
    exported.source = checkpoint;
    exported.target = folder.string();
    exported.format = "transformers";
    exported.merge = arguments.merge;
    export_model(exported);
  }
  std::vector<PushFile> out = files_to_push(folder);
  const bool has_card = std::any_of(out.begin(), out.end(),
                                    [](const PushFile& file) { return file.name == kReadme; });
  if (has_card) return out;
  const std::string card = (scratch / "card" / kReadme).string();
  write_file_with_folder(card, model_card(arguments.repository, folder, training));
  for (PushFile& file : files_to_push(scratch / "card")) out.push_back(std::move(file));
  return out;
}

ExitCode push_verb(const PushArguments& arguments) {
  PushRequest request{
      .name = model_named(arguments.repository),
      .is_private = arguments.is_private,
      .message = arguments.message.empty() ? "Upload the model with accel-run" : arguments.message,
      .files = {}};
  HubAddress address = hub_address(&environment_variable);
  if (!arguments.token.empty()) address.token = token_of(arguments.token);
  if (address.offline && !arguments.dry_run) {
    throw Error(ExitCode::kRecipe, "HF_HUB_OFFLINE forbids to push",
                "unset it, or add '--dry-run'");
  }
  const ScratchFolder scratch;
  request.files = prepared_files(arguments, scratch.path());
  std::vector<DirEntry> listing;
  for (const PushFile& file : request.files) {
    listing.push_back({file.name, DirEntry::Kind::kFile, file.size});
  }
  const std::string where = address.endpoint + "/" + arguments.repository;
  if (arguments.dry_run) {
    say(text("these files would go to {}:", printable_url(where)) + "\n" + listing_text(listing));
    return ExitCode::kDone;
  }
  const auto client = make_curl_client("'push'", "upload the exported folder by other means");
  say(text("pushed to {}", push_files(*client, request, address)));
  return ExitCode::kDone;
}

}  // namespace

void add_push_verb(VerbTable& verbs) {
  const auto to = std::make_shared<PushArguments>();
  CLI::App& verb = verbs.add("push", "upload a model to the Hugging Face hub",
                             verbs.with_torch([to] { return push_verb(*to); }));
  verb.add_option("source", to->source,
                  "a run folder or a checkpoint, which is exported first, or an exported folder")
      ->required();
  verb.add_option("--to", to->repository,
                  "organisation/name on the server of HF_ENDPOINT; created if it does not exist")
      ->required();
  verb.add_option("--message", to->message,
                  "of the commit; default: 'Upload the model with accel-run'");
  verb.add_option("--token", to->token,
                  "'${secret:NAME}': the token in the variable NAME; default: HF_TOKEN, or that of "
                  "the hub's login");
  verb.add_flag("--merge", to->merge, "merge a LoRA adapter into the weights of a run");
  verb.add_flag("--private", to->is_private, "create the repository as a private one");
  verb.add_flag("--dry-run", to->dry_run, "export and list the files, and upload nothing");
}

}  // namespace accel
