#include "runner/cli/new_recipe.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "core/utf8.h"
#include "runner/cli/recipe_draft.h"
#include "runner/cli/sniff_images.h"
#include "runner/cli/sniff_table.h"
#include "runner/formats/mapped_file.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEvalWords[] = {"dev", "valid", "validation", "val", "test", "eval", "t10k"};

std::string in_data(const std::string& name) {
  return "\"${vars.data}/" + quoted(name).substr(1);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// The file beside `train` that has another word where it has "train", or "".
fs::path eval_part(const fs::path& train) {
  const std::string name = train.filename().string();
  if (name.find("train") == std::string::npos) return {};
  for (const char* word : kEvalWords) {
    const fs::path other = train.parent_path() / replaced(name, "train", word);
    if (fs::is_regular_file(other)) return other;
  }
  return {};
}

RecipeDraft glyphs_draft() {
  RecipeDraft draft;
  draft.title =
      "Learns to read drawn digits, which need no download: a minute or two on two cores.";
  draft.model = {"type: lenet", "dropout: 0.1"};
  draft.task = "classification";
  draft.train = {"type: synthetic/glyphs", "length: 12000"};
  draft.eval = {"type: synthetic/glyphs", "length: 2000"};
  draft.until = "4 epochs";
  draft.lr = "0.002";
  draft.metric = "accuracy";
  return draft;
}

std::vector<std::string> quoted_all(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const std::string& text : texts) out.push_back(quoted(text));
  return out;
}

void append(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

std::vector<std::string> table_lines(const SniffedTable& table, const fs::path& path, bool tab) {
  std::vector<std::string> features, categories;
  for (const SniffedColumn& column : table.features) {
    features.push_back(quoted(column.name));
    if (!column.values.empty()) {
      append(categories, list_lines("  " + quoted(column.name), quoted_all(column.values)));
    }
  }
  std::vector<std::string> lines = {std::string("type: ") + (tab ? "tsv" : "csv"),
                                    "path: " + in_data(path.filename().string()),
                                    std::string("header: ") + (table.header ? "true" : "false")};
  append(lines, list_lines("features", features));
  if (!categories.empty()) {
    lines.push_back("one_hot:  # columns of categories, with the values they may have");
    append(lines, categories);
  }
  if (table.empty_numbers) lines.push_back("fill: 0  # what an empty field counts as");
  lines.push_back("target: " + quoted(table.target));
  if (table.labels.empty()) {
    lines.push_back("target_type: number");
  } else {
    append(lines, list_lines("labels", quoted_all(table.labels)));
  }
  return lines;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

/// Brings every number to mean 0 and deviation 1; categories stay as they are.
std::vector<std::string> normalize_lines(const SniffedTable& table) {
  std::vector<std::string> means, deviations;
  for (const SniffedColumn& column : table.features) {
    const size_t width = std::max<size_t>(1, column.values.size());
    means.insert(means.end(), width, short_number(column.mean));
    deviations.insert(deviations.end(), width, short_number(column.deviation));
  }
  std::vector<std::string> lines = {"- type: normalize"};
  for (const auto& [name, values] : {std::pair("  mean", means), std::pair("  std", deviations)}) {
    append(lines, list_lines(name, values));
  }
  return lines;
}

RecipeDraft table_draft(const fs::path& path) {
  const bool tab = path.extension() == ".tsv";
  const SniffedTable table = sniff_table(path.string(), tab);
  RecipeDraft draft;
  draft.title = "Learns '" + printable(table.target) + "' from the " + std::to_string(table.rows) +
                " rows of " + printable(path.filename().string()) + ".";
  draft.folder = path.parent_path().string();
  draft.model = {"type: mlp", "hidden: [64, 64]"};
  draft.task = table.labels.empty() ? "regression" : "classification";
  draft.metric = table.labels.empty() ? "mae" : "accuracy";
  draft.train = table_lines(table, path, tab);
  const fs::path other = eval_part(path);
  if (!other.empty()) draft.eval = table_lines(table, other, tab);
  draft.transform = normalize_lines(table);
  draft.until = "20 epochs";
  draft.batch = 32;
  return draft;
}

std::vector<std::string> image_lines(const fs::path& path, const std::string& split,
                                     const SniffedImages& images) {
  const bool archive = fs::is_regular_file(path);
  std::vector<std::string> lines = {
      "type: image_folder",
      "path: " + (archive ? in_data(path.filename().string()) : std::string("\"${vars.data}\""))};
  if (!split.empty()) lines.push_back("split: " + split);
  if (!images.same_size || images.side > 64) {
    lines.push_back("size: [64, 64]  # all images must have one size");
  }
  return lines;
}

RecipeDraft image_draft(const fs::path& path, const SniffedImages& images) {
  RecipeDraft draft;
  draft.title = "Tells " + std::to_string(images.classes) + " kinds of image apart, from " +
                std::to_string(images.count) + " examples.";
  draft.folder = (fs::is_regular_file(path) ? path.parent_path() : path).string();
  draft.model = {"type: resnet", "depth: 18", "width: 16  # 64 is the usual one, and slower"};
  draft.task = "classification";
  draft.metric = "accuracy";
  draft.train = image_lines(path, images.train, images);
  if (!images.eval.empty()) draft.eval = image_lines(path, images.eval, images);
  draft.transform = {"- {type: random_flip}", "- {type: normalize, mean: [0.5], std: [0.25]}"};
  return draft;
}

bool is_idx_images(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.find("images") != std::string::npos && name.find("idx3") != std::string::npos;
}

std::vector<std::string> idx_lines(const std::string& images) {
  const std::string labels = replaced(replaced(images, "images", "labels"), "idx3", "idx1");
  return {"type: idx", "images: " + in_data(images), "labels: " + in_data(labels)};
}

RecipeDraft idx_draft(const fs::path& train) {
  RecipeDraft draft;
  draft.title = "Tells the images in " + printable(train.filename().string()) + " apart.";
  draft.folder = train.parent_path().string();
  draft.model = {"type: lenet", "dropout: 0.25"};
  draft.task = "classification";
  draft.metric = "accuracy";
  draft.train = idx_lines(train.filename().string());
  const fs::path other = eval_part(train);
  if (!other.empty()) draft.eval = idx_lines(other.filename().string());
  draft.transform = {"- {type: normalize, mean: [0.13], std: [0.31]}"};
  draft.until = "6 epochs";
  return draft;
}

RecipeDraft text_draft(const fs::path& path, bool utf8) {
  RecipeDraft draft;
  const std::string name = path.filename().string();
  draft.title = "Learns to write like " + printable(name) + ", one character after the other.";
  draft.folder = path.parent_path().string();
  draft.model = {"type: gpt", "layers: 4", "heads: 4", "width: 128"};
  draft.task = "causal_lm";
  draft.metric = "perplexity";
  const std::vector<std::string> file = {"type: text", "path: " + in_data(name),
                                         std::string("level: ") + (utf8 ? "chars" : "bytes"),
                                         "context: 64  # characters it looks back"};
  draft.train = file;
  append(draft.train, {"stride: 1  # a sample at every character", "to: 0.9"});
  draft.eval = file;
  draft.eval.push_back("from: 0.9  # the last tenth of the file");
  draft.until = "2000 steps";
  draft.eval_every = "500 steps";
  draft.batch = 12;
  return draft;
}

/// As a plain text, if it is one.
std::optional<RecipeDraft> sniff_text(const fs::path& path) {
  constexpr size_t kLook = 64 << 10;
  constexpr size_t kLeast = 1000;
  const SharedBytes file = map_file(path.string());
  const std::string_view all(reinterpret_cast<const char*>(file.view.data()), file.view.size());
  const std::optional<size_t> bad = first_unreadable(all);
  if (bad && *bad < kLook && path.extension() != ".txt") return std::nullopt;
  if (all.size() < kLeast) {
    throw DataError("'" + path.string() + "' is too short to learn from: " +
                    std::to_string(all.size()) + " bytes, at least 1000 are wanted");
  }
  return text_draft(path, !bad);
}

[[noreturn]] void not_known(const fs::path& path) {
  throw DataError("cannot tell what '" + path.string() + "' holds",
                  "known are .csv, .tsv, class folders of JPEG or PNG images (also in a .tar), IDX "
                  "files and plain text");
}

RecipeDraft sniff_file(const fs::path& path) {
  if (path.extension() == ".csv" || path.extension() == ".tsv") return table_draft(path);
  if (is_idx_images(path)) return idx_draft(path);
  if (path.extension() == ".tar") {
    if (const auto images = sniff_images(path.string())) return image_draft(path, *images);
    not_known(path);
  }
  std::optional<RecipeDraft> text = sniff_text(path);
  if (!text) not_known(path);
  return *text;
}

RecipeDraft sniff_folder(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  const auto is_train = [](const fs::path& path) {
    return path.filename().string().find("train") != std::string::npos;
  };
  std::stable_partition(files.begin(), files.end(), is_train);
  for (const fs::path& file : files) {
    if (is_idx_images(file)) return idx_draft(file);
  }
  if (const auto images = sniff_images(folder.string())) return image_draft(folder, *images);
  for (const char* extension : {".csv", ".tsv", ".tar", ".txt"}) {
    for (const fs::path& file : files) {
      if (file.extension() == extension) return sniff_file(file);
    }
  }
  not_known(folder);
}

}  // namespace

std::string sniff_recipe(const std::string& path) {
  if (path.empty()) return to_recipe(glyphs_draft());
  fs::path full = fs::absolute(path).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();  // a slash at the end
  if (fs::is_directory(full)) return to_recipe(sniff_folder(full));
  if (!fs::exists(full)) throw DataError("there is nothing at '" + path + "'");
  return to_recipe(sniff_file(full));
}

}  // namespace accel
