#include "train/recipe/missing_inputs.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/api/input_path.h"
#include "core/base/text.h"
#include "data/datasets/downloaded_set.h"
#include "data/store/data_path.h"
#include "train/recipe/option_walk.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// The path relative to the working folder, if that is shorter.
std::string shown(const fs::path& path) {
  const fs::path near = path.lexically_proximate(fs::current_path());
  return near.begin()->string() == ".." ? path.string() : near.string();
}

/// The nearest existing name, or how relative paths are resolved, or "".
std::string hint_for(const fs::path& missing, const Node& value) {
  const fs::path folder = missing.parent_path();
  std::error_code error;
  if (fs::is_symlink(missing, error)) return "it is a dangling symbolic link";
  if (fs::is_regular_file(folder, error))
    return text("'{}' is a file, not a folder", shown(folder));
  if (!fs::is_directory(folder, error)) {
    return text("its folder '{}' does not exist either", shown(folder));
  }
  constexpr size_t kMostNames =
      10'000;  // enough for a hint, also in a folder of millions of images
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, error), end;
       !error && at != end && names.size() < kMostNames; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  const std::string meant = did_you_mean(missing.filename().string(), names);
  if (!meant.empty() || fs::path(value.scalar()->text).is_absolute()) return meant;
  const Scalar& scalar = *value.scalar();  // a reference may have inserted it from another source
  const Source* source = scalar.base ? scalar.base.get() : value.where.source.get();
  return source && source->kind == Source::Kind::kFile
             ? "relative paths are resolved from the folder of the recipe file"
             : "relative paths on the command line are resolved from the working folder";
}

/// A hint with a file of the folder that has the component's name as its extension.
std::string file_in(const fs::path& folder, const std::string& component) {
  const std::string ending = "." + component;
  std::string first;
  constexpr int kMostLooks = 10'000;
  int looks = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end && looks < kMostLooks;
       at.increment(error), ++looks) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(ending) && (first.empty() || name < first)) first = name;
  }
  return first.empty() ? "give a file in it" : text("give a file in it, such as '{}'", first);
}

constexpr auto kTokenizer = "tokenizer";

/// Options of a dataset that name its fields of text, and further arguments of `tokenizer train`.
struct TextFields {
  const char* dataset;
  std::vector<const char*> options;
  const char* arguments;
};

const TextFields* text_fields_of(const std::string& dataset, bool has_prompt) {
  static const TextFields kPrompts = {"chat", {"prompt", "completion"}, " --chatml"};
  static const TextFields kFields[] = {
      {"chat", {"content_key"}, " --chatml"},
      {"token_classification", {"words"}, " --model wordpiece --cased"},
      {"conll", {"word_column"}, " --model wordpiece --cased"},
      {"text", {"json_field"}, ""},
      {"jsonl", {"text"}, ""},
      {"csv", {"text"}, ""},
      {"tsv", {"text"}, ""},
      {"parquet", {"text"}, ""},
      {"arrow", {"text"}, ""}};
  if (dataset == kPrompts.dataset && has_prompt) return &kPrompts;
  for (const TextFields& each : kFields) {
    if (dataset == each.dataset) return &each;
  }
  return nullptr;
}

/// The names that an option holds, or its default: "premise,hypothesis"; empty: none.
std::string names_in(const Node& dataset, const ComponentInfo& info, const char* option) {
  const auto name_of = [](const Node& item) {
    return item.scalar() ? item.scalar()->text : std::string();
  };
  if (const Node::Entry* entry = dataset.find(option)) {
    return entry->node.list() ? joined(*entry->node.list(), ",", name_of) : name_of(entry->node);
  }
  for (const FieldInfo& field : info.fields) {
    if (field.name != option) continue;
    std::string names = field.fallback;
    std::erase_if(
        names, [](char c) { return std::string_view("[]'\" ").find(c) != std::string_view::npos; });
    return names;
  }
  return "";
}

class InputFinder final : public OptionWalk {
 public:
  using OptionWalk::OptionWalk;

  std::vector<MissingInput> take() { return std::move(found_); }

 private:
  /// The command that trains a tokenizer on the texts of the visited dataset.
  std::string train_hint(const std::string& out) const {
    std::string command = "to make one: accel-run tokenizer train ";
    const Node* const dataset = component_node();
    const TextFields* const fields =
        dataset ? text_fields_of(component_name(), dataset->find("prompt") != nullptr) : nullptr;
    if (!fields) return command + text("TEXT.txt --out {}", out);
    std::string file = "FILE";
    if (const Node::Entry* entry = dataset->find("path"); entry && entry->node.scalar()) {
      Diagnostics ignored;
      Reading reading{ignored, registry()};
      const auto path = Codec<InputPath>::read(entry->node, "path", reading);
      std::error_code error;
      if (path && fs::is_regular_file(path->text, error)) file = shown(path->text);
    }
    std::vector<std::string> names;
    for (const char* option : fields->options) {
      names.push_back(names_in(*dataset, *component_info(), option));
    }
    std::erase(names, "");
    command += file;
    if (!names.empty()) command += " --fields " + joined(names, ",");
    return command + fields->arguments + text(" --out {}", out);
  }

  void option(const Node& value, const FieldInfo& field) override {
    const bool can_be_auto = field.type == Codec<Auto<InputPath>>::name();
    const bool is_file = field.type == Codec<InputFile>::name();
    if (!value.scalar() || (can_be_auto && value.scalar()->text == "auto")) return;
    const bool is_data = field.type == Codec<DataPath>::name();
    if (!can_be_auto && !is_file && !is_data && field.type != Codec<InputPath>::name()) return;
    if (is_data && is_url(value.scalar()->text)) return;
    Diagnostics ignored;  // reported when the recipe is read
    Reading reading{ignored, registry()};
    const auto path = Codec<InputPath>::read(value, field.name, reading);
    if (!path || path->text.empty()) return;
    std::error_code error;
    const std::string start = text("'{}' is '{}', ", field.name, shown(path->text));
    if (!fs::exists(path->text, error)) {
      std::string hint = hint_for(path->text, value);
      if (field.name == kTokenizer && !hint.starts_with("did you mean")) {
        hint += (hint.empty() ? "" : "; ") + train_hint(shown(path->text));
      }
      found_.push_back({field.name, value.where, start + "which does not exist", std::move(hint)});
    } else if (is_file && fs::is_directory(path->text, error)) {
      found_.push_back({field.name, value.where, start + "which is a folder, not a file",
                        file_in(path->text, component_name())});
    }
  }

  /// For a component whose path is `auto`: the folder of its downloaded data set.
  void component(const Node& node, const Node& type, const ComponentInfo& info) override {
    for (const FieldInfo& field : info.fields) {
      if (field.type != Codec<Auto<InputPath>>::name()) continue;
      const Node::Entry* entry = node.find(field.name);
      if (entry && !(entry->node.scalar() && entry->node.scalar()->text == "auto")) continue;
      const fs::path folder = downloaded_set_folder(info.name);
      std::error_code error;
      if (folder.empty() || (fs::exists(folder, error) && !fs::is_empty(folder, error))) continue;
      found_.push_back({field.name, type.where,
                        "the data set '" + info.name + "' is not on this machine: there is no '" +
                            folder.string() + "'",
                        "fetch it first: 'accel-run download " + info.name +
                            "', or name its folder as '" + field.name + "'"});
    }
  }

  std::vector<MissingInput> found_;
};

}  // namespace

std::vector<MissingInput> missing_inputs(const Node& component, const std::string& kind,
                                         const Registry& registry) {
  InputFinder finder(registry);
  finder.visit_components(component, kind);
  return finder.take();
}

void report_missing_inputs(const Node& recipe, const std::vector<FieldInfo>& sections,
                           Reading& reading) {
  InputFinder finder(reading.registry);
  finder.visit_section(recipe, sections);
  for (const MissingInput& each : finder.take()) {
    reading.problems.error(each.where, each.message, each.hint);
  }
}

}  // namespace accel
