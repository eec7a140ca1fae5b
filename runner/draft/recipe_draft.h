// The parts of a drafted recipe, and their text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "runner/draft/draft_request.h"

namespace accel {

/// A recipe in parts. `findings` are comments of the recipe and are printed too.
struct RecipeDraft {
  std::string title;                  ///< "Predicts 'species' from the 150 rows of iris.csv."
  std::vector<std::string> findings;  ///< what was seen, what is chosen and why
  std::vector<std::string> others;    ///< what else is possible
  std::filesystem::path folder;       ///< of the data, `vars.data`; empty: built-in data
  std::filesystem::path weights;      ///< a Hugging Face folder, `vars.weights`; empty: none
  int64_t positions = 0;              ///< of a text in the model of `weights`; 0: unknown
  std::filesystem::path tokenizer;    ///< `vars.tokenizer`; empty: none
  std::string first_command;          ///< must be run before the recipe; empty: none
  std::vector<std::string> model;     ///< lines of the section `model`
  std::string task;
  std::vector<std::string> train;  ///< lines of `data.train`
  std::vector<std::string> eval;   ///< lines of `data.eval`
  std::string split;               ///< `data.split`, in place of `data.eval`; empty: none
  double split_share = 0;          ///< of the split; 0: `split_samples`
  int64_t split_samples = 0;
  std::vector<std::string> transform;  ///< items of `data.transform`
  std::string lr = "0.001";
  std::string until = "10 epochs";
  int64_t batch = 64;
  std::string eval_every = "1 epochs";
  std::string metric;
  bool is_imbalanced = false;                ///< accuracy alone misleads
  std::vector<std::filesystem::path> files;  ///< that are read beside the one that was named

  bool has_eval() const { return !eval.empty() || !split.empty(); }
};

/// Of the splits of drafts.
constexpr uint64_t kDraftSplitSeed = 0;

/// Fewer held-out samples than this give a noisy metric.
constexpr int64_t kFewSamples = 50;

/// Holds out a tenth of `samples`, with a finding; of too few samples nothing.
void hold_out(RecipeDraft& draft, int64_t samples);

/// A class and its number of samples.
using ClassCount = std::pair<std::string, int64_t>;

/// Findings about classes with a single sample, which is not held out, and about strong imbalance,
/// for which f1 is measured too. `classes` in the order of their numbers; a class without a name
/// has no samples.
void note_class_counts(const std::vector<ClassCount>& classes, RecipeDraft& draft);

/// The largest power of two of at most `most` that gives `samples` at least eight steps per epoch.
int64_t batch_for(int64_t samples, int64_t most);

/// The recipe with explanatory comments.
std::string recipe_text(const RecipeDraft& draft, const DraftRequest& request);

/// A path as a recipe at `recipe` names it: relative where it lies below or beside its folder.
std::string path_in_recipe(const std::filesystem::path& path, const std::string& recipe);

/// A text as a quoted YAML scalar with `${` escaped.
std::string yaml_text(const std::string& text);
/// A text as a quoted YAML key, in which `${` has no meaning.
std::string yaml_key(const std::string& text);
std::vector<std::string> yaml_texts(const std::vector<std::string>& texts);

/// `name: [a, b]`, wrapped into lines of at most 96 columns after indentation.
std::vector<std::string> list_lines(const std::string& name, const std::vector<std::string>& items);

/// The quoted path of a file in the folder `vars.data`.
std::string in_data(const std::string& name);

void append_lines(std::vector<std::string>& lines, const std::vector<std::string>& more);

/// The folder of a file; "." for a name alone.
std::filesystem::path folder_of(const std::filesystem::path& file);

/// The file beside `train` with a word for eval data in place of "train"; empty: none.
std::filesystem::path eval_file(const std::filesystem::path& train);

/// A path as a word of a command line.
std::string shell_word(const std::filesystem::path& path);

/// Lines of cells in aligned columns; the last cell is not padded.
std::vector<std::string> aligned_rows(const std::vector<std::vector<std::string>>& rows);

// One function for each kind of data.
RecipeDraft draft_table(const std::filesystem::path& path, const DraftRequest& request);
RecipeDraft draft_rows(const std::filesystem::path& path, const DraftRequest& request);
/// A Parquet or Arrow file, the files of its split (`train-00000-of-00002.parquet`), or a folder of
/// save_to_disk.
RecipeDraft draft_columns(const std::filesystem::path& path, const DraftRequest& request);
/// Class folders, or a .tar of them.
RecipeDraft draft_images(const std::filesystem::path& path, const DraftRequest& request);
RecipeDraft draft_idx(const std::filesystem::path& train);
/// Rows with the path of an image and a text, for the dual encoder of `--model`.
RecipeDraft draft_image_text(const std::filesystem::path& path, const DraftRequest& request);
/// CoNLL text: a word and its tags per line.
RecipeDraft draft_conll(const std::filesystem::path& path, const DraftRequest& request);
/// Plain text. Throws DataError for binary data.
RecipeDraft draft_text(const std::filesystem::path& path);

/// For hints.
const char* known_formats();

/// Why the folder or .tar is not read as images; empty if it has JPEG or PNG files.
std::string no_images_reason(const std::filesystem::path& path);
/// Whether a text has the columns, sentences and tags of CoNLL files.
bool is_conll(const std::filesystem::path& path);
/// Whether the folder has a model of images and texts; "" has none. Throws Error (kRecipe) for a
/// folder without a config.
bool is_dual_encoder(const std::string& folder);
bool is_idx_images(const std::filesystem::path& path);

}  // namespace accel
