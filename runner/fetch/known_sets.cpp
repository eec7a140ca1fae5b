#include "runner/fetch/known_sets.h"

#include "core/error.h"

namespace accel {

std::span<const KnownSet> known_sets() {
  static const std::vector<KnownSet> sets = {
      {"mnist",
       "https://ossci-datasets.s3.amazonaws.com/mnist",
       {{"train-images-idx3-ubyte.gz", 9912422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"},
        {"train-labels-idx1-ubyte.gz", 28881, "d53e105ee54ea40749a09fcbcd1e9432"},
        {"t10k-images-idx3-ubyte.gz", 1648877, "9fb629c4189551a2d022fa330f9573f3"},
        {"t10k-labels-idx1-ubyte.gz", 4542, "ec29112dd5afa0611ce80d1b7f02629c"}}},
      {"cifar10",
       "https://www.cs.toronto.edu/~kriz",
       {{"cifar-10-binary.tar.gz", 170052171, "c32a1d4ab5d03f1284b67883e8d87530"}}},
      {"sst2",
       "https://dl.fbaipublicfiles.com/glue/data",
       {{"SST-2.zip", 7439277, "9f81648d4199384278b86e315dac217c"}}},
  };
  return sets;
}

void download_set(HttpClient& client, const KnownSet& set, const std::string& mirror,
                  const std::filesystem::path& folder, const FetchPatience& patience) {
  const std::string base = mirror.empty() ? set.base : mirror;
  for (const KnownFile& file : set.files) {
    if (patience.say) {
      patience.say(std::string(file.name) + ", " + std::to_string(file.size) + " bytes");
    }
    FetchOrder order;
    order.url = base + "/" + file.name;
    order.target = folder / file.name;
    order.name = file.name;
    order.size = file.size;
    order.digest = Digest::Kind::kMd5;
    order.digest_hex = file.md5;
    try {
      fetch_file(client, order, {}, patience);
    } catch (const FetchRefused& refused) {
      throw IoError("'" + origin_of_url(base) + "' refuses '" + file.name + "' with " +
                        std::to_string(refused.result().status),
                    "ACCEL_RUN_MIRROR can name another place that has it");
    }
  }
}

}  // namespace accel
