#include "train/job/rank_inputs.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/api/input_path.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "data/datasets/fingerprint.h"
#include "data/loader/mixture.h"
#include "train/job/data_schema.h"
#include "train/recipe/option_walk.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr auto kUnreadable = "unreadable";
constexpr auto kDataSection = "data";
constexpr auto kPluginSection = "plugins";

/// Ascending indices, with the first and the last.
std::set<int64_t> compared_samples(int64_t size, uint64_t seed) {
  constexpr int64_t kSamples = 8;
  std::set<int64_t> chosen;
  if (size == 0) return chosen;
  chosen = {0, size - 1};
  for (int64_t i = 2; i < kSamples; ++i) {
    Fingerprint drawn;
    drawn.add(static_cast<int64_t>(seed)).add(i);
    chosen.insert(static_cast<int64_t>(drawn.value() % static_cast<uint64_t>(size)));
  }
  return chosen;
}

std::string digest_of_sample(const Dataset& dataset, int64_t index) try {
  const Sample sample = dataset.sample(index);
  Fingerprint digest;
  for (const Array* array : {&sample.input, &sample.target, &sample.segments}) {
    for (const int64_t length : array->shape()) digest.add(length);
    digest.add_content({array->data(), array->bytes()});
  }
  return digest.text();
} catch (const Error&) {
  return kUnreadable;  // an error of the step that needs it, unless other ranks can read it
}

/// The digest of a file; "" for one that is missing.
std::string digest_of_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return "";
  try {
    return Fingerprint().add_content(map_file(path.string()).view).text();
  } catch (const Error&) {
    return kUnreadable;
  }
}

/// Whether a model, a tokenizer or an adapter is read from files like this one. An index of weights
/// may belong to another format than the one that is read.
bool is_input_file(const fs::path& path, bool with_weights) {
  const std::string name = path.filename().string(), extension = path.extension().string();
  if (name.starts_with('.') || name.ends_with(".index.json")) return false;
  if (extension == ".safetensors") return with_weights;
  constexpr const char* kExtensions[] = {".json", ".txt", ".model", ".jinja"};
  return std::any_of(std::begin(kExtensions), std::end(kExtensions),
                     [&](const char* known) { return extension == known; });
}

/// Digests of the files that the options name, except those of datasets, which are compared by
/// their samples.
class FileDigests final : public OptionWalk {
 public:
  using OptionWalk::OptionWalk;

  std::vector<std::pair<std::string, std::string>> take() { return std::move(files_); }

 private:
  void option(const Node& value, const FieldInfo& field) override {
    if (!value.scalar() || value.scalar()->text.empty() || !is_input(field)) return;
    Diagnostics ignored;  // reported when the recipe is read
    Reading reading{ignored, registry()};
    const auto path = Codec<FilePath>::read(value, field.name, reading);
    if (path) add(path->text, !has_weights_fingerprint());
  }

  bool is_input(const FieldInfo& field) const {
    if (component_kind() == "dataset" && field.name == "path") return false;
    // Other components name the files that they write by plain paths.
    const bool of_model = component_kind() == "model" && field.type == Codec<FilePath>::name();
    return of_model || field.type == Codec<InputPath>::name() ||
           field.type == Codec<InputFile>::name();
  }

  /// Whether Job::weights_fingerprint covers the weights of the option: not those of a teacher.
  bool has_weights_fingerprint() const { return key() == "model.weights" || key() == "model.file"; }

  void add(const fs::path& path, bool with_weights) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      if (with_weights) files_.emplace_back(key(), digest_of_file(path));
      return;
    }
    std::set<fs::path> found;
    constexpr size_t kMostFiles = 1'000;
    for (fs::directory_iterator at(path, error), end;
         !error && at != end && found.size() < kMostFiles; at.increment(error)) {
      if (is_input_file(at->path(), with_weights)) found.insert(at->path());
    }
    for (const fs::path& file : found) {
      files_.emplace_back(key() + "/" + file.filename().string(), digest_of_file(file));
    }
  }

  std::vector<std::pair<std::string, std::string>> files_;
};

void add_datasets(const Job& job, const std::string& key, const Loader* loader,
                  std::vector<DatasetDigest>& out) {
  if (!loader) return;
  const auto seed = static_cast<uint64_t>(job.recipe.seed);
  const Concatenation* parts = parts_of(loader->dataset());
  if (!parts) {
    out.push_back(digest_of(key, loader->dataset(), seed));
    return;
  }
  for (size_t i = 0; i < parts->sources().size(); ++i) {
    out.push_back(digest_of(text("{}.{}", key, i), *parts->sources()[i], seed));
  }
}

Json json_of(const DatasetDigest& dataset) {
  Json samples = Json::array();
  for (const SampleDigest& sample : dataset.samples) {
    samples.push_back({sample.index, sample.name, sample.digest});
  }
  return {{"key", dataset.key},     {"size", dataset.size}, {"input", dataset.input},
          {"shape", dataset.shape}, {"samples", samples},   {"print", dataset.fingerprint}};
}

DatasetDigest dataset_from(const Json& in) {
  DatasetDigest dataset{.key = in.at("key"),
                        .size = in.at("size"),
                        .input = in.at("input"),
                        .shape = in.at("shape"),
                        .samples = {},
                        .fingerprint = in.at("print")};
  for (const Json& sample : in.at("samples")) {
    dataset.samples.push_back({sample.at(0), sample.at(1), sample.at(2)});
  }
  return dataset;
}

std::string named(const SampleDigest& sample) {
  return sample.name.empty() ? text("sample {}", sample.index)
                             : text("sample {} ('{}')", sample.index, sample.name);
}

/// A line on the first sample that differs, of those that both have.
std::optional<std::string> sample_difference(const DatasetDigest& main,
                                             const DatasetDigest& other) {
  for (const SampleDigest& theirs : other.samples) {
    const auto mine =
        std::find_if(main.samples.begin(), main.samples.end(),
                     [&](const SampleDigest& sample) { return sample.index == theirs.index; });
    if (mine == main.samples.end()) continue;
    if (mine->digest == theirs.digest && mine->name == theirs.name) continue;
    if (theirs.digest == kUnreadable) {
      return text("{}: {} cannot be read", other.key, named(theirs));
    }
    const std::string name = theirs.name == mine->name ? "" : text(", not '{}'", mine->name);
    return text("{}: {} differs{}", other.key, named(theirs), name);
  }
  return std::nullopt;
}

std::optional<InputDifference> difference(const DatasetDigest& main, const DatasetDigest& other) {
  const std::string& key = other.key;
  if (main.size != other.size) {
    return InputDifference{text("{}: {} samples instead of {}", key, other.size, main.size), ""};
  }
  if (main.input != other.input) {
    return InputDifference{
        text("{}: samples of shape {} instead of {}", key, other.input, main.input), ""};
  }
  if (main.shape != other.shape) {
    return InputDifference{text("{}: other classes, labels or token numbers", key), ""};
  }
  if (auto line = sample_difference(main, other))
    return InputDifference{*std::move(line), kDataSection};
  if (main.fingerprint == other.fingerprint) return std::nullopt;
  return InputDifference{
      text("{}: other content, although the {} samples that were compared are equal", key,
           other.samples.size()),
      kDataSection};
}

/// The key that permits the difference of a file.
std::string consent_to(const std::string& file) {
  const std::string section = file.substr(0, file.find('.'));
  return section == kDataSection || section == kPluginSection ? section
                                                              : file.substr(0, file.find('/'));
}

void compare_files(const RankInputs& main, const RankInputs& other,
                   std::vector<InputDifference>& out) {
  const auto missing = [](const auto& files, const std::string& name) {
    return std::none_of(files.begin(), files.end(),
                        [&](const auto& file) { return file.first == name; });
  };
  for (const auto& [name, digest] : main.files) {
    if (missing(other.files, name))
      out.push_back({text("{}: no such file", name), consent_to(name)});
  }
  for (const auto& [name, digest] : other.files) {
    if (missing(main.files, name)) {
      out.push_back({text("{}: a file that rank 0 does not have", name), consent_to(name)});
    } else if (std::find(main.files.begin(), main.files.end(), std::pair(name, digest)) ==
               main.files.end()) {
      out.push_back({text("{}: another file", name), consent_to(name)});
    }
  }
}

}  // namespace

DatasetDigest digest_of(const std::string& key, const Dataset& dataset, uint64_t seed) {
  const DataShape shape = dataset.shape();
  DatasetDigest out{.key = key,
                    .size = dataset.size(),
                    .input = to_string(shape.input),
                    .shape = Fingerprint().add(shape_text(shape)).text(),
                    .samples = {},
                    .fingerprint = dataset.fingerprint()};
  constexpr auto kTime = std::chrono::seconds(1);
  const auto end = std::chrono::steady_clock::now() + kTime;
  for (const int64_t index : compared_samples(out.size, seed)) {
    out.samples.push_back({index, dataset.name(index), digest_of_sample(dataset, index)});
    if (std::chrono::steady_clock::now() > end) break;
  }
  return out;
}

RankInputs inputs_of(const Job& job) {
  RankInputs inputs;
  FileDigests files(job.registry);
  files.visit_section(job.resolved, RecipeOptions::schema().info());
  inputs.files = files.take();
  if (!job.weights_fingerprint.empty()) {
    const bool from_file = job.recipe.model.resolved.find("file") != nullptr;
    inputs.files.emplace_back(from_file ? "model.file" : "model.weights", job.weights_fingerprint);
  }
  for (const PluginIdentity& plugin : job.recipe.plugin_identities) {
    inputs.files.emplace_back(std::string(kPluginSection) + "." + plugin.name, plugin.sha256);
  }
  add_datasets(job, "data.train", job.train_loader.get(), inputs.datasets);
  add_datasets(job, job.recipe.data.split.eval ? "data.split" : "data.eval", job.eval_loader.get(),
               inputs.datasets);
  return inputs;
}

std::string text_of(const RankInputs& inputs) {
  Json datasets = Json::array();
  for (const DatasetDigest& dataset : inputs.datasets) datasets.push_back(json_of(dataset));
  const Json all = {{"files", inputs.files}, {"datasets", datasets}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

RankInputs inputs_from(const std::string& text) {
  const Json in = Json::parse(text);
  RankInputs inputs;
  inputs.files = in.at("files").get<decltype(inputs.files)>();
  for (const Json& dataset : in.at("datasets")) inputs.datasets.push_back(dataset_from(dataset));
  return inputs;
}

std::vector<InputDifference> differences(const RankInputs& main, const RankInputs& other) {
  std::vector<InputDifference> out;
  compare_files(main, other, out);
  for (size_t i = 0; i < std::min(main.datasets.size(), other.datasets.size()); ++i) {
    if (auto found = difference(main.datasets[i], other.datasets[i])) {
      out.push_back(*std::move(found));
    }
  }
  if (main.datasets.size() != other.datasets.size()) {
    out.push_back({text("data: {} datasets with samples instead of {}", other.datasets.size(),
                        main.datasets.size()),
                   ""});
  }
  return out;
}

}  // namespace accel
