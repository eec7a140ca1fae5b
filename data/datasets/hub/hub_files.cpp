#include "data/datasets/hub/hub_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/base/glob.h"
#include "core/base/text.h"
#include "core/recipe/node.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/hub/data_folder.h"
#include "data/datasets/hub/split_names.h"
#include "data/store/streamed_files.h"

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
Node configs_of(const DataFolder& folder) {
  const auto text = folder.text("README.md");
  if (!text) return {};
  const std::string path = folder.path() + "/README.md";
  const size_t end = text->starts_with("---") ? text->find("\n---", 3) : text->npos;
  if (end == text->npos) return {};
  try {
    Node head = parse_recipe(path, text->substr(0, end + 1));
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

namespace {

/// Those of `names`, in `folder`, that are files of rows.
Names rows_among(Names names, const std::string& folder) {
  std::erase_if(names, [](const std::string& name) {
    const std::string last = fs::path(name).filename();
    return !is_readable(name) || last == "dataset_infos.json" || last == "dataset_info.json" ||
           last == "config.json" || last == "dataset_dict.json";
  });
  if (names.empty()) {
    const auto& known = readable_extensions();
    throw DataError(accel::text("'{}' has no files of a supported format", folder),
                    accel::text("supported are {}", quoted_list(known)));
  }
  return names;
}

/// The files that the recipe names, of a folder that cannot be listed.
Names named_files(const std::string& folder, const Names& patterns) {
  const bool has_wildcards = std::any_of(
      patterns.begin(), patterns.end(),
      [](const std::string& pattern) { return pattern.find_first_of("*?[") != pattern.npos; });
  if (patterns.empty() || has_wildcards) {
    throw DataError(accel::text("the server of '{}' lists no files, among which to choose", folder),
                    accel::text("name each with 'files', such as 'files: [\"{}\"]'",
                                "data/train-{00000..00009}-of-00010.parquet"));
  }
  return rows_among(patterns, folder);
}

/// Patterns without numbers in braces.
Names expanded_patterns(const Names& patterns) {
  Names out;
  for (const std::string& pattern : patterns) {
    const Names expanded = expanded_names(pattern, extension_of(pattern));
    out.insert(out.end(), expanded.begin(), expanded.end());
  }
  return out;
}

void require_one_kind(const Names& files, const std::string& folder) {
  std::set<std::string> extensions;
  for (const std::string& file : files) extensions.insert(extension_of(file));
  if (extensions.size() <= 1) return;
  throw DataError(
      accel::text("the files of '{}' are of several kinds: {}", folder, quoted_list(extensions)),
      accel::text("select them with 'files', such as 'files: [\"**/*{}\"]'", *extensions.begin()));
}

Names chosen_files(const DataFolder& folder, const HubChoice& choice) {
  const auto names = folder.names();
  const Names patterns = expanded_patterns(choice.files);
  if (!names) return named_files(folder.path(), patterns);
  const Names all = rows_among(*names, folder.path());
  if (patterns.empty()) {
    const Node configs = configs_of(folder);
    const Node* config = chosen_config(configs, folder.path(), choice.config);
    return files_of_split(folder.path(),
                          config ? splits_of_config(*config, all) : splits_of_names(all), choice);
  }
  Names files = matching(all, patterns);
  if (files.empty()) {
    throw DataError(
        accel::text("'{}' has no files that match {}", folder.path(), quoted_list(choice.files)),
        accel::text("it has '{}', for instance", all.front()));
  }
  return files;
}

/// The files below a folder, of one kind.
Names hub_names(const DataFolder& folder, const HubChoice& choice) {
  Names files = chosen_files(folder, choice);
  require_one_kind(files, folder.path());
  return files;
}

/// As hub_names(), and those of a folder of save_to_disk.
ArrowFiles column_files(const DataFolder& folder, const HubChoice& choice) {
  const auto splits = saved_splits(folder);
  std::string split = choice.split;
  if (split.empty() && !splits.empty()) {
    const char* const held_out = splits.contains(kValidationSplit) ? kValidationSplit : kTestSplit;
    split = choice.train ? kTrainSplit : held_out;
  }
  if (auto saved = saved_files(folder, split)) return *saved;
  return {hub_names(folder, choice), {}};
}

}  // namespace

std::vector<std::string> row_files(const std::string& folder) {
  return rows_among(*DiskFolder(folder).names(), folder);
}

std::vector<std::string> hub_files(const std::string& folder, const HubChoice& choice) {
  Names files = hub_names(DiskFolder(folder), choice);
  for (std::string& file : files) file.insert(0, folder + "/");
  return files;
}

HubObjects stream_hub_files(const HubData& data, SavedDatasets saved) {
  const std::string& url = data.location.text;
  if (is_readable(url)) {
    require_no_choice(url, data.choice);
    return {stream_files(url, extension_of(url), data.streaming)};
  }
  HubObjects out{stream_objects(url, data.streaming)};
  const StoreFolder folder(out.objects->store());
  const ArrowFiles files = saved == SavedDatasets::kRecognize
                               ? column_files(folder, data.choice)
                               : ArrowFiles{hub_names(folder, data.choice), {}};
  out.objects->add(files.data);
  out.objects->add(files.indices);
  out.indices = files.indices.size();
  out.objects->say_summary(url);
  return out;
}

void require_no_choice(const std::string& file, const HubChoice& choice) {
  if (choice.config.empty() && choice.split.empty() && choice.files.empty()) return;
  throw DataError(
      accel::text("'{}' is a file, and 'config', 'split' and 'files' choose in a folder", file),
      "leave them out, or name the folder");
}

HubChoice choice_of(const HubChoiceOptions& options, bool train) {
  return {.config = options.config, .split = options.split, .files = options.files, .train = train};
}

void check_hub_choice(const HubChoiceOptions& options, const Node& node, Reading& reading) {
  if (options.files.empty() || (options.config.empty() && options.split.empty())) return;
  reading.problems.error(node.find("files")->node.where, "'files' replaces 'config' and 'split'",
                         "leave out one or the other");
}

namespace {

ArrowFormat format_of(const std::string& file) {
  const std::string extension = extension_of(file);
  if (extension == ".parquet") return ArrowFormat::kParquet;
  if (extension == ".arrow") return ArrowFormat::kIpc;
  throw DataError(accel::text("'{}' is neither a Parquet nor an Arrow file", file),
                  "convert it, or name the files with 'files'");
}

}  // namespace

ArrowRows open_columns(const HubData& data) {
  const std::string& path = data.location.text;
  require_arrow(path);
  if (data.location.is_url()) {
    const HubObjects found = stream_hub_files(data, SavedDatasets::kRecognize);
    return {found.objects, format_of(found.objects->url_of(0)), found.indices};
  }
  if (fs::is_directory(path)) {
    const ArrowFiles files = in_folder(path, column_files(DiskFolder(path), data.choice));
    return {files, format_of(files.data.front())};
  }
  require_no_choice(path, data.choice);
  return {{{path}, {}}, format_of(path)};
}

std::vector<uint64_t> column_keys(const HubData& data, const std::string& column) {
  const ArrowRows rows = open_columns(data);
  const std::unique_ptr<RecordReader> reader = rows.open({column});
  std::vector<uint64_t> keys;
  for (std::vector<std::string_view> fields; reader->next(fields);) {
    keys.push_back(Fingerprint().add(fields.front()).value());
  }
  return keys;
}

}  // namespace accel
