// A dataset of the Hugging Face hub, downloaded by `accel-run download`.
#include <filesystem>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/hub/hub_files.h"
#include "data/datasets/text/text_records.h"

namespace accel {
namespace {

struct HubDatasetOptions : TextRecordOptions, HubChoiceOptions {};

std::vector<std::string> files_of(const HubDatasetOptions& options, bool train) {
  const std::string& path = options.path.text;
  if (!std::filesystem::is_regular_file(path)) return hub_files(path, choice_of(options, train));
  if (options.config.empty() && options.split.empty() && options.files.empty()) return {path};
  throw DataError(
      text("'{}' is a file, and 'config', 'split' and 'files' choose in a folder", path),
      "leave them out, or name the folder");
}

std::unique_ptr<RecordSource> source_of(const HubDatasetOptions& options, bool train) {
  const std::vector<std::string> files = files_of(options, train);
  if (files.front().ends_with(".parquet")) return arrow_source({files, {}}, ArrowFormat::kParquet);
  if (files.front().ends_with(".arrow")) return arrow_source({files, {}}, ArrowFormat::kIpc);
  std::vector<std::unique_ptr<RecordSource>> sources;
  for (const std::string& file : files) sources.push_back(record_source_of(file));
  return chained_source(std::move(sources));
}

class HubDataset final : public TextRecords {
 public:
  static constexpr auto kName = "hf";
  static constexpr const char* kHintFor[] = {"huggingface", "hub"};
  static constexpr auto kSummary =
      "A dataset of the Hugging Face hub, once it is downloaded: a text or a pair of texts per "
      "record, as tokens.";

  static Schema<HubDatasetOptions> schema() {
    return with_text_records(
        with_hub_choice(Schema<HubDatasetOptions>()),
        "`hf:datasets/organisation/name`, `...@revision`, a folder laid out like a repository of "
        "the hub, or one of its files.");
  }

  HubDataset(const HubDatasetOptions& options, const DatasetContext& context)
      : TextRecords(options, context, source_of(options, context.train)) {}
};

const Register<HubDataset> hub_dataset;

}  // namespace
}  // namespace accel
