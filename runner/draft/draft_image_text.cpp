// Drafts for a dual encoder of images and texts: rows with the path of an image and its text.
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/base/whole_number.h"
#include "data/datasets/text/text_records.h"
#include "runner/draft/image_processor.h"
#include "runner/draft/model_folder.h"
#include "runner/draft/recipe_draft.h"
#include "runner/draft/text_model.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr const char* kImageColumns[] = {"image",    "image_path", "file_name", "filepath",
                                         "filename", "path",       "img"};
constexpr const char* kTextColumns[] = {"text", "caption", "captions", "title", "description"};

struct PairColumns {
  std::string image, text;
  int64_t rows = 0;
};

/// The number of rows; none if the first one has no such columns, or no such image beside the file.
std::optional<int64_t> rows_with(const RecordSource& source, const fs::path& folder,
                                 const PairColumns& columns) {
  std::vector<std::string_view> fields;
  int64_t rows = 0;
  try {
    const std::unique_ptr<RecordReader> reader = source.open({columns.image, columns.text});
    while (reader->next(fields)) {
      std::error_code unknown;
      if (rows++ == 0 && !fs::is_regular_file(folder / fields[0], unknown)) return std::nullopt;
    }
  } catch (const DataError&) {
    if (rows == 0) return std::nullopt;
  }
  return rows;
}

PairColumns pair_columns(const fs::path& path, const std::string& target) {
  const std::unique_ptr<RecordSource> source = record_source_of(path.string());
  std::vector<std::string> texts(std::begin(kTextColumns), std::end(kTextColumns));
  if (!target.empty()) texts = {target};
  for (const char* image : kImageColumns) {
    for (const std::string& text : texts) {
      PairColumns columns{image, text};
      const std::optional<int64_t> rows = rows_with(*source, folder_of(path), columns);
      if (!rows || *rows == 0) continue;
      columns.rows = *rows;
      return columns;
    }
  }
  throw DataError(accel::text("'{}' has no rows with an image file and a text", path.string()),
                  "its columns are such as 'image' and 'text', and paths of images are relative to "
                  "its folder; --target names the column of the text");
}

int64_t positions_of_text(const nlohmann::json& config) {
  const auto section = config.find("text_config");
  if (section == config.end() || !section->is_object()) return 0;
  const auto found = section->find("max_position_embeddings");
  if (found == section->end()) return 0;
  return whole_number<int64_t>(*found).value_or(0);
}

std::vector<std::string> pair_lines(const std::string& name, const PairColumns& columns,
                                    const RecipeDraft& draft, const ImageProcessor& processor) {
  std::vector<std::string> lines = {"type: image_text", "path: " + in_data(name)};
  if (columns.image != "image") lines.push_back("image: " + yaml_text(columns.image));
  if (columns.text != "text") lines.push_back("text: " + yaml_text(columns.text));
  lines.emplace_back(kTokenizerLine);
  lines.push_back(max_length_line(draft, 77));
  append_lines(lines, size_lines(processor));
  return lines;
}

}  // namespace

bool is_dual_encoder(const std::string& folder) {
  return !folder.empty() && model_type_in(config_of_folder(folder), folder) == "clip";
}

RecipeDraft draft_image_text(const fs::path& path, const DraftRequest& request) {
  const PairColumns columns = pair_columns(path, request.target);
  const nlohmann::json config = config_of_folder(request.model);
  nlohmann::json vision = config.value("vision_config", nlohmann::json::object());
  vision["model_type"] = "clip";
  const ImageProcessor processor = read_image_processor(request.model, vision);
  const std::string name = path.filename().string();
  RecipeDraft draft;
  draft.title = text("Embeds the images and texts of {}.", printable(name));
  draft.folder = folder_of(path);
  draft.weights = request.model;
  draft.tokenizer = request.tokenizer.empty() ? request.model : request.tokenizer;
  draft.positions = positions_of_text(config);
  draft.model = {"type: auto", "weights: \"${vars.weights}\""};
  draft.task = "contrastive";
  draft.metric = "retrieval_recall";
  draft.lr = "1e-5";
  draft.until = "3 epochs";
  draft.batch = batch_for(columns.rows, 64);
  draft.findings.push_back(text("{}: {} rows, with an image in '{}' and its text in '{}'",
                                printable(name), columns.rows, columns.image, columns.text));
  for (const std::string& note : processor.notes) draft.findings.push_back(note);
  draft.transform = processor_transforms(processor, "");
  draft.train = pair_lines(name, columns, draft, processor);
  if (const fs::path other = eval_file(path); !other.empty()) {
    const std::string eval = other.filename().string();
    draft.eval = pair_lines(eval, columns, draft, processor);
    draft.findings.push_back(text("eval: the rows of {}", printable(eval)));
  } else {
    hold_out(draft, columns.rows);
  }
  draft.others.push_back("adapters: 'lora: {rank: 8}' of the model, with 'lr: 1e-4'");
  return draft;
}

}  // namespace accel
