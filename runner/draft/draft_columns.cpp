// Drafts for Parquet and Arrow files: texts with labels, documents, images, and token ids.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>

#include "core/base/convert_command.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "data/datasets/hub/arrow_rows.h"
#include "formats/image/image.h"
#include "runner/draft/draft_rows.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using Value = ArrowColumn::Value;

constexpr int64_t kImagesToMeasure = 20;
constexpr int64_t kLargestImageSide = 64;
constexpr const char* kEvalSplits[] = {"validation", "valid", "dev", "test"};

/// "train" of "train-00000-of-00002.parquet"; empty for other names.
std::string shard_split(const fs::path& path) {
  const std::string stem = path.stem().string();
  const size_t of = stem.find("-of-");
  const size_t dash = of == stem.npos || of == 0 ? stem.npos : stem.rfind('-', of - 1);
  return dash == stem.npos ? "" : stem.substr(0, dash);
}

/// The files that are read, and the lines that name them.
struct ColumnFiles {
  ArrowFiles train;
  ArrowFormat format = ArrowFormat::kParquet;
  RowsSource source;
  std::vector<fs::path> all;
};

std::string line_for(const fs::path& file) {
  return "path: " + in_data(file.filename().string());
}

/// A file, with the eval file beside it.
void choose_file(const fs::path& path, ColumnFiles& out) {
  out.train = {{path.string()}, {}};
  out.source.folder = folder_of(path);
  out.source.train = {line_for(path)};
  if (const fs::path other = eval_file(path); !other.empty()) {
    out.source.eval = {line_for(other)};
    out.source.eval_name = other.filename().string();
  }
}

/// The files of a split of a folder, and those of the split to evaluate.
void choose_split(const fs::path& folder, const std::string& split, ColumnFiles& out) {
  const std::string path_line = "path: \"${vars.data}\"";
  out.source.is_one_file = false;
  out.train = arrow_files(folder.string(), split, out.format);
  out.source.folder = folder;
  out.source.train = {path_line};
  if (!split.empty()) out.source.train.push_back("split: " + yaml_text(split));
  std::vector<std::string> files = out.train.data;
  for (const char* name : kEvalSplits) {
    if (split != "train" || !out.source.eval.empty()) break;
    try {
      const ArrowFiles eval = arrow_files(folder.string(), name, out.format);
      files.insert(files.end(), eval.data.begin(), eval.data.end());
      out.source.eval = {path_line, std::string("split: ") + name};
      out.source.eval_name = text("split '{}'", name);
    } catch (const DataError&) {
      continue;  // the split does not exist
    }
  }
  for (const std::string& file : files) out.all.push_back(fs::path(file).lexically_normal());
}

ColumnFiles column_files(const fs::path& path) {
  const bool arrow = fs::is_directory(path) || path.extension() == ".arrow";
  ColumnFiles out;
  out.format = arrow ? ArrowFormat::kIpc : ArrowFormat::kParquet;
  out.source.type = arrow ? "arrow" : "parquet";
  if (fs::is_directory(path)) {
    choose_split(path, fs::exists(path / "dataset_dict.json") ? "train" : "", out);
  } else if (const std::string split = shard_split(path); !split.empty()) {
    const fs::path folder = folder_of(path);
    choose_split(folder, fs::exists(folder / "state.json") ? "" : split, out);
  } else {
    choose_file(path, out);
  }
  return out;
}

void add_integers(RowField& field, std::string_view packed) {
  for (size_t at = 0; at + sizeof(int64_t) <= packed.size(); at += sizeof(int64_t)) {
    int64_t number = 0;
    std::memcpy(&number, packed.data() + at, sizeof number);
    field.largest = std::max(field.largest, number);
  }
  ++field.lists_of_integers;
  field.longest = std::max(field.longest, static_cast<int64_t>(packed.size() / sizeof(int64_t)));
}

void add_column_value(RowField& field, Value kind, const std::string& value) {
  ++field.rows;
  if (kind == Value::kText) return add_text(field, value);
  if (kind == Value::kIntegers) return add_integers(field, value);
  if (kind == Value::kTexts) return add_list(field, value);
  if (kind == Value::kBoolean) {
    ++field.booleans;
  } else {
    ++field.numbers;
    field.integers += kind == Value::kInteger;
  }
  field.values.add(value);
}

/// All rows, except for the bytes and the types that no dataset reads.
SniffedRows sniff_columns(const ArrowRows& table, const std::string& path) {
  SniffedRows found;
  found.path = path;
  found.columns = true;
  std::vector<std::string> wanted;
  std::vector<ArrowField> kinds;
  std::vector<std::pair<size_t, Value>> read;
  for (const ArrowColumn& column : table.columns()) {
    RowField& field = found.fields.emplace_back();
    field.name = column.name;
    field.type = column.type;
    field.is_unread = column.value == Value::kOther || column.value == Value::kBytes;
    if (field.is_unread) continue;
    wanted.push_back(column.name);
    kinds.push_back(column.value == Value::kIntegers ? ArrowField::kNumbers
                    : column.value == Value::kTexts  ? ArrowField::kNames
                                                     : ArrowField::kText);
    read.emplace_back(found.fields.size() - 1, column.value);
  }
  if (wanted.empty()) return found;
  const std::unique_ptr<RecordReader> reader = table.open_with_nulls(wanted, kinds);
  std::vector<std::string_view> values;
  while (reader->next(values)) {
    ++found.rows;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!values[i].data()) continue;
      add_column_value(found.fields[read[i].first], read[i].second, std::string(values[i]));
    }
  }
  found.looked_at = found.rows;
  if (found.rows == 0) throw DataError(text("'{}' has no rows", path));
  return found;
}

bool has_texts(const SniffedRows& rows) {
  return std::any_of(rows.fields.begin(), rows.fields.end(), [](const RowField& field) {
    return field.texts > 0 && field.type != "classes";
  });
}

const RowField* label_column(const SniffedRows& rows, const DraftRequest& request) {
  if (!request.target.empty()) return rows.find(request.target);
  for (const char* name : {"label", "labels", "target", "class", "category", "fine_label"}) {
    const RowField* field = rows.find(name);
    if (field && (field->is(&RowField::texts) || field->is(&RowField::integers))) return field;
  }
  return nullptr;
}

/// The sizes of the first images. Throws DataError for bytes that are no images.
bool have_one_small_size(const ArrowRows& table, const std::string& column) {
  const std::unique_ptr<RecordReader> reader =
      table.open_with_nulls({column}, {ArrowField::kBytes});
  std::optional<ImageSize> first;
  std::vector<std::string_view> values;
  for (int64_t i = 0; i < kImagesToMeasure && reader->next(values); ++i) {
    if (!values[0].data()) continue;
    const auto* const bytes = reinterpret_cast<const std::byte*>(values[0].data());
    const ImageSize size = image_size({bytes, values[0].size()}, reader->location());
    if (!first) first = size;
    if (size != *first || std::max(size.height, size.width) > kLargestImageSide) return false;
  }
  return true;
}

/// Sets train and eval data from the `lines` of the files of each, or holds eval data out.
template <class Lines>
void add_splits(const SniffedRows& rows, const ColumnFiles& files, const Lines& lines,
                RecipeDraft& draft) {
  draft.train = lines(files.source.train);
  if (files.source.eval.empty()) return hold_out(draft, rows.rows);
  draft.eval = lines(files.source.eval);
  draft.findings.push_back(text("eval: the rows of {}", printable(files.source.eval_name)));
}

RecipeDraft draft_image_column(const SniffedRows& rows, const ArrowRows& table,
                               const ColumnFiles& files, const RowField& image,
                               const RowField& label) {
  RecipeDraft draft;
  const fs::path path = rows.path;
  draft.title = text("Classifies the images of column '{}' of {} into {} classes.", image.name,
                     printable(path.filename().string()), label.values.counts.size());
  draft.folder = files.source.folder;
  add_field_findings(rows, {{image.name, "image"}, {label.name, "target"}}, draft);
  note_classes(rows, label, draft);
  draft.model = {"type: resnet", "depth: 18", "embedding_size: 16  # 64 is standard, and slower"};
  draft.task = "classification";
  draft.metric = "accuracy";
  const bool resized = !have_one_small_size(table, image.name);
  if (resized) {
    draft.findings.push_back(
        "images are resized to 64 x 64, because all must have one size; 224 x 224 shows more and "
        "is slower");
  }
  const auto lines = [&](const std::vector<std::string>& source) {
    std::vector<std::string> out = {"type: hf_images"};
    append_lines(out, source);
    out.push_back("image: " + yaml_text(image.name));
    out.push_back("target: " + yaml_text(label.name));
    if (resized) out.push_back("size: [64, 64]  # all images must have one size");
    return out;
  };
  add_splits(rows, files, lines, draft);
  draft.transform = {"- {type: random_flip}", "- {type: normalize, mean: [0.5], std: [0.25]}"};
  draft.batch = batch_for(rows.rows, 64);
  return draft;
}

RecipeDraft draft_token_column(const SniffedRows& rows, const ColumnFiles& files,
                               const RowField& ids) {
  RecipeDraft draft;
  const fs::path path = rows.path;
  draft.title = text("Language model of the token ids in column '{}' of {}.", ids.name,
                     printable(path.filename().string()));
  draft.folder = files.source.folder;
  add_field_findings(rows, {{ids.name, "tokens"}}, draft);
  draft.findings.push_back(
      text("the largest token id is {}: set 'vocab_size' to that of the tokenizer", ids.largest));
  const RowField* const targets = rows.find("labels");
  if (targets && targets != &ids && targets->is(&RowField::lists_of_integers)) {
    draft.others.push_back(
        "targets of each token, without those of -100: 'token_targets: labels' of the dataset");
  }
  draft.model = {"type: llama", "num_layers: 4", "num_heads: 4", "hidden_size: 128"};
  draft.task = "causal_lm";
  draft.metric = "perplexity";
  const auto lines = [&](const std::vector<std::string>& source) {
    std::vector<std::string> out = {"type: hf_tokens"};
    append_lines(out, source);
    append_lines(out, {"input: " + yaml_text(ids.name), text("vocab_size: {}", ids.largest + 1)});
    if (ids.longest > 1024) out.push_back("max_length: 1024  # tokens; longer ones are cut");
    return out;
  };
  add_splits(rows, files, lines, draft);
  draft.batch = batch_for(rows.rows, 32);
  return draft;
}

/// Throws for a list of structs, the type of conversations.
void refuse_conversations(const SniffedRows& rows) {
  for (const RowField& field : rows.fields) {
    if (!field.type.starts_with("list<") || field.type.find("struct<") == std::string::npos)
      continue;
    throw DataError(
        text("column '{}' of '{}' has the type '{}': conversations are read from JSON Lines only",
             field.name, rows.path, field.type),
        "convert the file, and draft from the new one: " + convert_command(rows.path, ".jsonl"));
  }
}

}  // namespace

RecipeDraft draft_columns(const fs::path& path, const DraftRequest& request) {
  const ColumnFiles files = column_files(path);
  const ArrowRows table(files.train, files.format);
  const SniffedRows rows = sniff_columns(table, files.train.data.front());
  RecipeDraft draft;
  const auto typed = [&](Value value) -> const RowField* {
    for (const ArrowColumn& column : table.columns()) {
      if (column.value == value) return rows.find(column.name);
    }
    return nullptr;
  };
  const RowField* const image = typed(Value::kBytes);
  const RowField* const label = label_column(rows, request);
  const RowField* const ids = typed(Value::kIntegers);
  if (image && label) {
    draft = draft_image_column(rows, table, files, *image, *label);
  } else if (ids && request.as.empty() && request.target.empty() && !has_texts(rows)) {
    draft = draft_token_column(rows, files, *ids);
  } else {
    if (request.as.empty() && request.target.empty()) refuse_conversations(rows);
    RowsSource source = files.source;
    source.open = [&] { return arrow_source(files.train, files.format); };
    draft = draft_of_rows(rows, source, request);
  }
  draft.files = files.all;
  if (const size_t count = files.train.data.size(); count > 1) {
    draft.findings.insert(draft.findings.begin(), text("training data: {} files", count));
  }
  return draft;
}

}  // namespace accel
