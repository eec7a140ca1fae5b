// A dataset of the Hugging Face hub, downloaded by `accel-run download` or streamed.
#include <filesystem>

#include "core/recipe/registry.h"
#include "data/datasets/hub/hub_files.h"
#include "data/datasets/text/streamed_records.h"
#include "data/datasets/text/text_records.h"

namespace accel {
namespace {

struct HubDatasetOptions : StreamedRecordOptions, HubChoiceOptions {};

std::vector<std::string> files_of(const std::string& path, const HubChoice& choice) {
  if (!std::filesystem::is_regular_file(path)) return hub_files(path, choice);
  require_no_choice(path, choice);
  return {path};
}

std::unique_ptr<RecordSource> source_of(const HubDatasetOptions& options, bool train) {
  const HubData data{options.location, options.streaming, choice_of(options, train)};
  if (options.location.is_url()) {
    return streamed_source_of(stream_hub_files(data, SavedDatasets::kIgnore).objects);
  }
  const std::vector<std::string> files = files_of(options.location.text, data.choice);
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
      "A dataset of the Hugging Face hub, downloaded or streamed: a text or a pair of texts per "
      "record, as tokens.";

  static Schema<HubDatasetOptions> schema() {
    return with_record_columns(with_streaming(
        with_hub_choice(Schema<HubDatasetOptions>()),
        "`hf:datasets/organisation/name`, `...@revision`, a folder laid out like a repository of "
        "the hub, or one of its files; or the URL of either."));
  }

  HubDataset(const HubDatasetOptions& options, const DatasetContext& context)
      : TextRecords(options.records(), context, source_of(options, context.train)) {}
};

const Register<HubDataset> hub_dataset;

}  // namespace
}  // namespace accel
