#include "data/datasets/hub/hub_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/base/glob.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/recipe/node.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/hub/split_names.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;
using Splits = FileSplits;

std::string extension_of(const std::string& name) {
  return fs::path(name).extension().string();
}

bool is_readable(const std::string& name) {
  const auto& all = readable_extensions();
  return std::find(all.begin(), all.end(), extension_of(name)) != all.end();
}

/// All files relative to `folder`, sorted; hidden files are skipped.
Names files_in(const std::string& folder) {
  Names out;
  for (fs::recursive_directory_iterator at(folder), end; at != end; ++at) {
    const std::string name = at->path().filename();
    if (name.starts_with('.') || name.starts_with("__")) {
      if (at->is_directory()) at.disable_recursion_pending();
    } else if (at->is_regular_file()) {
      out.push_back(at->path().lexically_relative(folder).generic_string());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

Names matching(const Names& files, const Names& patterns) {
  Names out;
  for (const std::string& pattern : patterns) {
    for (const std::string& file : files) {
      const bool known = std::find(out.begin(), out.end(), file) != out.end();
      if (!known && path_matches(pattern, file)) out.push_back(file);
    }
  }
  return out;
}

/// data/SPLIT-00000-of-00002.parquet
Splits splits_of_shards(const Names& files) {
  Splits out;
  for (const std::string& file : files) {
    if (!path_matches("data/*-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]*.*", file)) {
      continue;
    }
    constexpr size_t kFolder = std::string_view("data/").size(), kNumber = 6;
    out[file.substr(kFolder, file.rfind("-of-") - kNumber - kFolder)].push_back(file);
  }
  return out;
}

Splits splits_of_names(const Names& files) {
  if (Splits shards = splits_of_shards(files); !shards.empty()) return shards;
  for (const bool folders : {true, false}) {
    if (Splits found = splits_of_words(files, folders); !found.empty()) return found;
  }
  return {{kTrainSplit, files}};
}

std::string text_of(const Node& section, const char* key) {
  const Node::Entry* entry = section.find(key);
  const Scalar* scalar = entry ? entry->node.scalar() : nullptr;
  return scalar ? scalar->text : "";
}

/// One pattern or a list of patterns.
Names patterns_in(const Node& node) {
  if (const Scalar* one = node.scalar()) return {one->text};
  Names out;
  if (!node.list()) return out;
  for (const Node& item : *node.list()) {
    if (item.scalar()) out.push_back(item.scalar()->text);
  }
  return out;
}

/// The list `configs` in the front matter of README.md; null without one.
Node configs_of(const std::string& folder) {
  const std::string path = folder + "/README.md";
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  const SharedBytes file = map_file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.view.data()), file.view.size());
  const size_t end = text.starts_with("---") ? text.find("\n---", 3) : text.npos;
  if (end == text.npos) return {};
  try {
    Node head = parse_recipe(path, std::string(text.substr(0, end + 1)));
    Node::Entry* configs = head.find("configs");
    return configs && configs->node.list() ? std::move(configs->node) : Node();
  } catch (const RecipeError& fault) {
    throw DataError(accel::text("the head of '{}' cannot be read: {}", path, fault.what()),
                    "name the files with 'files'");
  }
}

/// Null if no config is named.
const Node* chosen_config(const Node& configs, const std::string& folder,
                          const std::string& config) {
  const Node::List none;
  const Node::List& all = configs.list() ? *configs.list() : none;
  std::set<std::string> names;
  const Node* first = nullptr;
  for (const Node& item : all) {
    const std::string name = text_of(item, "config_name");
    names.insert(name);
    const bool is_default = config.empty() && (all.size() == 1 || name == "default" ||
                                               text_of(item, "default") == "true");
    if (name == config || is_default) first = first ? first : &item;
  }
  if (first || (all.empty() && config.empty())) return first;
  const std::string configs_of_folder =
      names.empty() ? accel::text("'{}' names no configs", folder)
                    : accel::text("'{}' has the configs {}", folder, quoted_list(names));
  throw DataError(
      config.empty() ? configs_of_folder : accel::text("{}, not '{}'", configs_of_folder, config),
      names.empty() ? "leave out 'config', or name the files with 'files'"
                    : "name one of them with 'config'");
}

Splits splits_of_config(const Node& config, const Names& all) {
  std::string below = text_of(config, "data_dir");
  if (!below.empty() && !below.ends_with('/')) below += '/';
  if (below.starts_with("./")) below.erase(0, 2);
  Names files;
  for (const std::string& file : all) {
    if (file.starts_with(below)) files.push_back(file.substr(below.size()));
  }
  Splits out;
  const Node::Entry* given = config.find("data_files");
  if (!given) {
    out = splits_of_names(files);
  } else if (const Node::Map* by_split = given->node.map()) {
    for (const Node::Entry& entry : *by_split) {
      out[entry.key] = matching(files, patterns_in(entry.node));
    }
  } else if (Names plain = patterns_in(given->node); !plain.empty()) {
    out[kTrainSplit] = matching(files, plain);
  } else if (const Node::List* list = given->node.list()) {
    for (const Node& item : *list) {
      const Node::Entry* path = item.find("path");
      if (path) out[text_of(item, "split")] = matching(files, patterns_in(path->node));
    }
  }
  for (auto& [split, names] : out) {
    for (std::string& name : names) name.insert(0, below);
  }
  std::erase_if(out, [](const auto& item) { return item.second.empty(); });
  if (out.empty() && !all.empty()) {
    throw DataError(
        accel::text("no file matches the config '{}' of README.md", text_of(config, "config_name")),
        "see 'data_files' there, or choose with 'files'");
  }
  return out;
}

Names files_of_split(const std::string& folder, const Splits& splits, const HubChoice& choice) {
  Names wanted = {choice.split};
  if (choice.split.empty())
    wanted = choice.train ? Names{kTrainSplit} : Names{kValidationSplit, kTestSplit};
  for (const std::string& split : wanted) {
    if (const auto found = splits.find(split); found != splits.end()) return found->second;
  }
  std::set<std::string> names;
  for (const auto& [name, files] : splits) names.insert(name);
  throw DataError(
      accel::text("'{}' has the splits {}, not '{}'", folder, quoted_list(names), wanted[0]),
      "name one of them with 'split'");
}

}  // namespace

const std::vector<std::string>& readable_extensions() {
  static const std::vector<std::string> all = {".parquet", ".arrow", ".jsonl", ".ndjson",
                                               ".json",    ".csv",   ".tsv",   ".txt"};
  return all;
}

std::vector<std::string> row_files(const std::string& folder) {
  if (!fs::is_directory(folder)) throw DataError(accel::text("'{}' is not a folder", folder));
  Names all = files_in(folder);
  std::erase_if(all, [](const std::string& name) {
    const std::string last = fs::path(name).filename();
    return !is_readable(name) || last == "dataset_infos.json" || last == "dataset_info.json" ||
           last == "config.json" || last == "dataset_dict.json";
  });
  if (all.empty()) {
    const auto& known = readable_extensions();
    throw DataError(accel::text("'{}' has no files of a supported format", folder),
                    accel::text("supported are {}", quoted_list(known)));
  }
  return all;
}

std::vector<std::string> hub_files(const std::string& folder, const HubChoice& choice) {
  const Names all = row_files(folder);
  Names files;
  if (!choice.files.empty()) {
    files = matching(all, choice.files);
    if (files.empty()) {
      throw DataError(
          accel::text("'{}' has no files that match {}", folder, quoted_list(choice.files)),
          accel::text("it has '{}', for instance", all.front()));
    }
  } else {
    const Node configs = configs_of(folder);
    const Node* config = chosen_config(configs, folder, choice.config);
    files = files_of_split(folder, config ? splits_of_config(*config, all) : splits_of_names(all),
                           choice);
  }
  std::set<std::string> extensions;
  for (const std::string& file : files) extensions.insert(extension_of(file));
  if (extensions.size() > 1) {
    throw DataError(
        accel::text("the files of '{}' are of several kinds: {}", folder, quoted_list(extensions)),
        accel::text("select them with 'files', such as 'files: [\"**/*{}\"]'",
                    *extensions.begin()));
  }
  for (std::string& file : files) file.insert(0, folder + "/");
  return files;
}

namespace {

namespace fs = std::filesystem;

bool is_saved(const fs::path& folder) {
  return fs::exists(folder / "dataset_dict.json") || fs::exists(folder / "state.json");
}

std::string split_of_saved(const fs::path& folder, const HubChoice& choice) {
  if (!choice.split.empty() || !fs::exists(folder / "dataset_dict.json")) return choice.split;
  if (choice.train) return "train";
  return fs::exists(folder / "validation") ? "validation" : "test";
}

}  // namespace

HubChoice choice_of(const HubChoiceOptions& options, bool train) {
  return {.config = options.config, .split = options.split, .files = options.files, .train = train};
}

void check_hub_choice(const HubChoiceOptions& options, const Node& node, Reading& reading) {
  if (options.files.empty() || (options.config.empty() && options.split.empty())) return;
  reading.problems.error(node.find("files")->node.where, "'files' replaces 'config' and 'split'",
                         "leave out one or the other");
}

ArrowRows open_columns(const std::string& path, const HubChoice& choice) {
  require_arrow(path);
  ArrowFiles files;
  if (is_saved(path)) {
    files = arrow_files(path, split_of_saved(path, choice), ArrowFormat::kIpc);
  } else if (fs::is_directory(path)) {
    files.data = hub_files(path, choice);
  } else {
    files.data = {path};
  }
  const std::string extension = fs::path(files.data.front()).extension();
  if (extension == ".parquet") return {files, ArrowFormat::kParquet};
  if (extension == ".arrow") return {files, ArrowFormat::kIpc};
  throw DataError(accel::text("'{}' is neither a Parquet nor an Arrow file", files.data.front()),
                  "convert it, or name the files with 'files'");
}

std::vector<uint64_t> column_keys(const std::string& path, const HubChoice& choice,
                                  const std::string& column) {
  const ArrowRows rows = open_columns(path, choice);
  const std::unique_ptr<RecordReader> reader = rows.open({column});
  std::vector<uint64_t> keys;
  for (std::vector<std::string_view> fields; reader->next(fields);) {
    keys.push_back(Fingerprint().add(fields.front()).value());
  }
  return keys;
}

}  // namespace accel
