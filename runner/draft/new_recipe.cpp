#include "runner/draft/new_recipe.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "runner/draft/recipe_draft.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

RecipeDraft glyphs_draft() {
  RecipeDraft draft;
  draft.title = "Classifies synthetic digits without a download: one or two minutes on two cores.";
  draft.model = {"type: lenet", "dropout: 0.1"};
  draft.task = "classification";
  draft.train = {"type: synthetic/glyphs", "length: 12000"};
  draft.eval = {"type: synthetic/glyphs", "length: 2000"};
  draft.until = "4 epochs";
  draft.lr = "0.002";
  draft.metric = "accuracy";
  return draft;
}

[[noreturn]] void throw_unknown_format(const fs::path& path, const std::string& reason) {
  throw DataError(text("unknown format of '{}'", path.string()),
                  text("{}; {}", reason, known_formats()));
}

constexpr std::pair<const char*, const char*> kCompressed[] = {{".gz", "gunzip --keep"},
                                                               {".bz2", "bunzip2 --keep"},
                                                               {".xz", "unxz --keep"},
                                                               {".zst", "unzstd"},
                                                               {".zip", "unzip"}};

enum class DataKind { kTable, kRows, kColumns, kIdx, kImages, kConll, kText };

/// Whether a line is an object, or part of an array with an object in each line.
bool is_json_line(const std::string& line) {
  if (line == "[" || line == "]") return true;
  return line.starts_with('{') && (line.ends_with('}') || line.ends_with("},"));
}

/// Delimiters that no space follows, as one does in prose.
size_t count_delimiters(const std::string& line, char delimiter) {
  size_t count = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    count += line[i] == delimiter && (i + 1 == line.size() || line[i + 1] != ' ');
  }
  return count;
}

/// Whether the line begins with two numbers between spaces, and has no word among its first three
/// fields: a row of a table such as the .data files of the UCI repository.
bool is_spaced_row(const std::string& line) {
  std::istringstream fields(line);
  std::string field;
  size_t count = 0;
  for (; count < 3 && fields >> field; ++count) {
    char* end = nullptr;
    std::strtod(field.c_str(), &end);
    if (end == field.c_str() || *end != '\0') return false;
  }
  return count >= 2;
}

/// The kind of a text whose lines are JSON objects or rows of a table; kText for others.
DataKind kind_of_text(const fs::path& path) {
  constexpr size_t kLook = 64 << 10, kLeastLines = 10;
  constexpr std::string_view kDelimiters = "\t;|,";
  std::string head(kLook, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(in.gcount()));
  std::istringstream lines(head.substr(0, head.rfind('\n') + 1));
  std::string line;
  size_t count = 0, objects = 0, spaced = 0;
  std::vector<size_t> first(kDelimiters.size()), same(kDelimiters.size());
  while (std::getline(lines, line)) {
    line = trimmed(line);
    if (line.empty()) continue;
    objects += is_json_line(line);
    spaced += is_spaced_row(line);
    for (size_t i = 0; i < kDelimiters.size(); ++i) {
      const size_t found = count_delimiters(line, kDelimiters[i]);
      if (count == 0) first[i] = found;
      same[i] += found > 0 && found == first[i];
    }
    ++count;
  }
  if (objects > 0 && objects == count) return DataKind::kRows;
  if (count >= kLeastLines && spaced == count) {
    const fs::path csv = fs::path(path).replace_extension(".csv");
    throw DataError(
        text("'{}' is not plain text: it has numbers between spaces in each line", path.string()),
        text("write commas: sed 's/^ *//; s/[[:space:]]*$//; s/[[:space:]][[:space:]]*/,/g' "
             "'{}' > '{}'",
             path.string(), csv.string()));
  }
  const bool table = std::find(same.begin(), same.end(), count) != same.end();
  return count >= kLeastLines && table ? DataKind::kTable : DataKind::kText;
}

DataKind kind_of_file(const fs::path& path) {
  const std::string extension = ascii_lower(path.extension().string());
  if (extension == ".csv") return DataKind::kTable;
  if (extension == ".tsv") return is_conll(path) ? DataKind::kConll : DataKind::kTable;
  if (extension == ".jsonl" || extension == ".json") return DataKind::kRows;
  if (extension == ".parquet" || extension == ".arrow") return DataKind::kColumns;
  if (is_idx_images(path)) return DataKind::kIdx;
  if (extension == ".tar") {
    const std::string reason = no_images_reason(path);
    if (reason.empty()) return DataKind::kImages;
    throw_unknown_format(path, reason);
  }
  for (const auto& [ending, command] : kCompressed) {
    if (extension != ending) continue;
    throw DataError(text("'{}' is compressed", path.string()),
                    text("decompress it first: {} '{}'", command, path.string()));
  }
  if (is_conll(path)) return DataKind::kConll;
  const DataKind kind = kind_of_text(path);
  if (kind != DataKind::kText) {
    const bool rows = kind == DataKind::kRows;
    const fs::path renamed = fs::path(path).replace_extension(rows ? ".jsonl" : ".csv");
    throw DataError(text("'{}' is not plain text: it has {} in each line", path.string(),
                         rows ? "a JSON object" : "the fields of a table"),
                    text("rename it: mv '{}' '{}'", path.string(), renamed.string()));
  }
  return kind;
}

/// Refuses wishes that the kind of data does not have.
void check_wishes(const fs::path& path, DataKind kind, const DraftRequest& request) {
  if (kind == DataKind::kTable || kind == DataKind::kRows || kind == DataKind::kColumns) return;
  if (kind == DataKind::kConll) {
    if (request.as.empty() || request.as == "tags") return;
    throw Error(ExitCode::kRecipe,
                text("'--as {}' is not for '{}', a CoNLL file", request.as, path.string()),
                "'--as tags' tags its words, '--as text' is a language model of its characters");
  }
  const std::pair<const char*, const std::string&> wishes[] = {{"--as", request.as},
                                                               {"--target", request.target},
                                                               {"--tokenizer", request.tokenizer},
                                                               {"--model", request.model}};
  for (const auto& [name, value] : wishes) {
    if (value.empty() || (kind == DataKind::kImages && &value == &request.model)) continue;
    throw Error(ExitCode::kRecipe,
                text("'{}' is for tables, JSON rows and CoNLL files, and '{}' is none of them",
                     name, path.string()),
                "leave it out");
  }
}

RecipeDraft draft_file(const fs::path& path, const DraftRequest& request) {
  const DataKind kind = kind_of_file(path);
  if (kind == DataKind::kConll && request.as == "text") {
    DraftRequest rest = request;
    rest.as.clear();
    check_wishes(path, DataKind::kText, rest);
    return draft_text(path);
  }
  check_wishes(path, kind, request);
  const bool has_rows =
      kind == DataKind::kTable || kind == DataKind::kRows || kind == DataKind::kColumns;
  if (has_rows && request.as.empty() && is_dual_encoder(request.model)) {
    return draft_image_text(path, request);
  }
  switch (kind) {
    case DataKind::kTable:
      return draft_table(path, request);
    case DataKind::kRows:
      return draft_rows(path, request);
    case DataKind::kColumns:
      return draft_columns(path, request);
    case DataKind::kIdx:
      return draft_idx(path);
    case DataKind::kImages:
      return draft_images(path, request);
    case DataKind::kConll:
      return draft_conll(path, request);
    case DataKind::kText:
      return draft_text(path);
  }
  return {};
}

/// Files of a folder, sorted by name, those for training first.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const bool hidden = entry.path().filename().string().starts_with('.');
    if (entry.is_regular_file() && !hidden) files.push_back(entry.path().lexically_normal());
  }
  std::sort(files.begin(), files.end());
  std::stable_partition(files.begin(), files.end(), [](const fs::path& path) {
    return path.filename().string().find("train") != std::string::npos;
  });
  return files;
}

/// Names the file that was chosen and those that are not read.
void note_choice(const std::vector<fs::path>& files, const fs::path& chosen, RecipeDraft& draft) {
  const fs::path eval = eval_file(chosen);
  std::vector<std::string> others;
  for (const fs::path& file : files) {
    const bool read = std::find(draft.files.begin(), draft.files.end(), file) != draft.files.end();
    if (file != chosen && file != eval && !read)
      others.push_back(printable(file.filename().string()));
  }
  const size_t count = others.size();
  if (count == 0) return;
  if (count > 5) others.resize(5);
  std::string line =
      text("read: {}; not read: {}", printable(chosen.filename().string()), joined(others));
  if (count > others.size()) line += text(", and {} more", count - others.size());
  draft.findings.insert(draft.findings.begin(), std::move(line));
}

RecipeDraft draft_folder(const fs::path& folder, const DraftRequest& request) {
  if (fs::exists(folder / "state.json") || fs::exists(folder / "dataset_dict.json")) {
    return draft_columns(folder, request);  // of save_to_disk
  }
  const std::vector<fs::path> files = files_in(folder);
  for (const fs::path& file : files) {
    if (is_idx_images(file)) return draft_file(file, request);
  }
  const std::string reason = no_images_reason(folder);
  if (reason.empty()) {
    check_wishes(folder, DataKind::kImages, request);
    RecipeDraft draft = draft_images(folder, request);
    note_choice(files, folder, draft);
    return draft;
  }
  for (const char* extension : {".csv", ".tsv", ".jsonl", ".json", ".parquet", ".arrow", ".tar",
                                ".conll", ".conllu", ".bio", ".txt"}) {
    for (const fs::path& file : files) {
      if (file.extension() != extension) continue;
      RecipeDraft draft = draft_file(file, request);
      note_choice(files, file, draft);
      return draft;
    }
  }
  throw_unknown_format(folder, reason);
}

}  // namespace

void check_new_file(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return;
  throw Error(ExitCode::kRecipe, text("'{}' already exists", path.string()),
              "give another name; nothing is overwritten");
}

void write_new_file(const std::filesystem::path& path, const std::string& contents) {
  check_new_file(path);
  std::ofstream out(path);
  out << contents;
  out.close();
  if (!out) throw IoError(text("cannot write '{}'", path.string()));
}

DraftRequest named_recipe(DraftRequest request) {
  const auto is_recipe = [](const fs::path& path) {
    const std::string extension = ascii_lower(path.extension().string());
    return extension == ".yaml" || extension == ".yml";
  };
  if (!is_recipe(request.recipe) && (request.data.empty() || is_recipe(request.data))) {
    std::swap(request.recipe, request.data);
  }
  if (request.recipe.empty() && request.data.empty()) {
    throw Error(ExitCode::kRecipe, "neither data nor a recipe is named",
                "give the data: accel-run new FILE_OR_FOLDER, or only a name: new first.yaml");
  }
  if (request.recipe.empty()) {
    fs::path data = fs::absolute(request.data).lexically_normal();
    if (!data.has_filename()) data = data.parent_path();  // a slash at the end
    const bool folder = fs::is_directory(data);
    request.recipe = (folder ? data.filename() : data.stem()).string() + ".yaml";
  } else if (!is_recipe(request.recipe)) {
    const std::string& name = fs::exists(request.recipe) ? request.data : request.recipe;
    throw Error(ExitCode::kRecipe, text("the recipe '{}' does not end with .yaml", name),
                text("call it '{}.yaml'", name));
  }
  return request;
}

NewRecipe new_recipe(const DraftRequest& request) {
  RecipeDraft draft;
  if (request.data.empty()) {
    check_wishes("the built-in data", DataKind::kText, request);
    draft = glyphs_draft();
  } else {
    fs::path path = fs::path(request.data).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();  // a slash at the end
    if (!fs::exists(path)) {
      throw DataError(text("'{}' does not exist", request.data),
                      "give a file or folder of data; the name of a recipe ends with .yaml");
    }
    draft = fs::is_directory(path) ? draft_folder(path, request) : draft_file(path, request);
  }
  NewRecipe out{recipe_text(draft, request), draft.findings, draft.first_command};
  for (const std::string& other : draft.others) out.lines.push_back("also possible: " + other);
  return out;
}

}  // namespace accel
