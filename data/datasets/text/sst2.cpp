// SST-2 in GLUE's distribution.
#include <filesystem>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/downloaded_set.h"
#include "data/datasets/table.h"
#include "formats/archive/zip.h"

namespace accel {
namespace {

constexpr auto kSst2Archive = "SST-2.zip";
constexpr size_t kLargestSst2File = size_t{64} << 20;  // the largest published one has 4 MiB

struct Sst2Options : DownloadedSetOptions, TextColumnOptions {
  Sst2Options() { text = {"sentence"}; }
};

/// A file of the dataset, with its table options.
struct Sst2File {
  TableOptions table;
  SharedBytes content;
};

Sst2File open_sst2(const Sst2Options& options, SetSplit split) {
  namespace fs = std::filesystem;
  const fs::path folder = set_folder(options, "sst2", {kSst2Archive});
  // GLUE's test split has no labels.
  const std::string file = split == SetSplit::kTrain ? "train.tsv" : "dev.tsv";
  Sst2File out;
  static_cast<TextColumnOptions&>(out.table) = options;
  out.table.header = Auto<bool>{true};
  out.table.target = {{"label"}};
  std::error_code error;
  if (fs::exists(folder / file, error)) {
    out.table.path.text = folder / file;
    out.content = map_file(out.table.path.text);
    return out;
  }
  const std::string archive = folder / kSst2Archive;
  out.table.path.text = archive + "/SST-2/" + file;
  const SharedBytes packed = map_file(archive);
  try {
    out.content = unzip_member(packed.view, "SST-2/" + file, kLargestSst2File);
  } catch (const FormatError& fault) {
    throw DataError(accel::text("cannot read '{}': {}", archive, fault.what()),
                    "it must be the archive that 'accel-run download sst2' fetches");
  }
  return out;
}

class Sst2 final : public Table {
 public:
  static constexpr auto kName = "sst2";
  static constexpr auto kSummary =
      "SST-2's film reviews, positive or negative: the files of `accel-run download sst2`.";

  static Schema<Sst2Options> schema() {
    return with_text_columns(with_downloaded_set(
        Schema<Sst2Options>(),
        "Folder of SST-2.zip, or of the train.tsv and dev.tsv in it; auto: where the download puts "
        "it."));
  }

  Sst2(const Sst2Options& options, const DatasetContext& context)
      : Sst2(open_sst2(options, wanted_split(options, context.train)), context) {}

 private:
  Sst2(Sst2File file, const DatasetContext& context)
      : Table(file.table, context, {.delimiter = '\t', .quoting = false}, std::move(file.content)) {
  }
};

const Register<Sst2> sst2;

}  // namespace
}  // namespace accel
