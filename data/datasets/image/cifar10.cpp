// CIFAR-10 in its binary version.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "core/api/row_values.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/downloaded_set.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/rows.h"
#include "formats/archive/compression.h"
#include "formats/archive/tar.h"
#include "formats/records/cifar.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr auto kArchive = "cifar-10-binary.tar.gz";
constexpr size_t kLargestArchive = size_t{256} << 20;  // the published one unpacks to 176 MiB

struct Cifar10Options : DownloadedSetOptions {};

/// "data_batch_1.bin" of "cifar-10-batches-bin/data_batch_1.bin"
std::string last_part(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

class Cifar10 final : public Dataset, public ClassLabels {
 public:
  static constexpr auto kName = "cifar10";
  static constexpr auto kSummary =
      "CIFAR-10's small photographs: the files of `accel-run download cifar10`.";

  static Schema<Cifar10Options> schema() {
    return with_downloaded_set(
        Schema<Cifar10Options>(),
        "Folder of cifar-10-binary.tar.gz, or of the .bin files in it; auto: where the download "
        "puts it.");
  }

  Cifar10(const Cifar10Options& options, const DatasetContext& context) {
    const fs::path folder = set_folder(options, kName, {kArchive});
    std::vector<std::string> names = {"test_batch.bin"};
    if (wanted_split(options, context.train) == SetSplit::kTrain) {
      names = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
               "data_batch_5.bin"};
    }
    std::error_code error;
    if (fs::exists(folder / names.front(), error)) {
      for (const std::string& name : names) {
        const std::string path = folder / name;
        take(map_file(path), path);
      }
    } else {
      take_from_archive(folder / kArchive, names);
    }
    fingerprint_ = print_.text();
  }

  int64_t size() const override { return ends_.back(); }

  Sample sample(int64_t index) const override {
    const auto [file, record] = at(index);
    return {to_unit_range(file->image(record)), Array::label(file->label(record))};
  }
  int64_t class_of(int64_t index) const override {
    const auto [file, record] = at(index);
    return file->label(record);
  }

  DataShape shape() const override {
    return {.input = {3, 32, 32},
            .classes = kCifarClasses,
            .labels = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse",
                       "ship", "truck"}};
  }

  std::string fingerprint() const override { return fingerprint_; }

 private:
  /// The file of a sample, and its position there.
  std::pair<const CifarRecords*, int64_t> at(int64_t index) const {
    const auto after = std::upper_bound(ends_.begin(), ends_.end(), index);
    const CifarRecords& file = files_[static_cast<size_t>(after - ends_.begin())];
    return {&file, index - (*after - file.size())};
  }

  void take_from_archive(const std::string& path, const std::vector<std::string>& names) {
    const SharedBytes archive = map_or_gunzip(path, kLargestArchive);
    const std::vector<TarMember> members = index_tar(archive.view, path);
    for (const std::string& name : names) {
      const auto member = std::find_if(members.begin(), members.end(), [&](const TarMember& m) {
        return last_part(m.name) == name;
      });
      if (member == members.end()) {
        throw DataError(text("'{}' holds no '{}'", path, name),
                        "it must be the archive of CIFAR-10's binary version");
      }
      take({archive.view.subspan(member->offset, member->size), archive.owner},
           path + "/" + member->name);
    }
  }

  void take(SharedBytes file, const std::string& name) {
    print_.add_content(file.view);
    files_.emplace_back(std::move(file), name);
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + files_.back().size());
  }

  std::vector<CifarRecords> files_;
  std::vector<int64_t> ends_;  ///< cumulative number of samples per file
  Fingerprint print_;
  std::string fingerprint_;
};

const Register<Cifar10> cifar10;

}  // namespace
}  // namespace accel
