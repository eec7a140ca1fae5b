// Datasets and transforms of samples. No libtorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/api/data_shape.h"
#include "core/api/sample_rng.h"
#include "core/base/array.h"

namespace accel {

/// One example.
struct Sample {
  Array input;
  Array target;
  Array segments = {};  ///< segment id of each token, like the input; or empty
};

/// Samples as rows of in-memory arrays.
struct Columns {
  Array inputs;             ///< [samples, ...input of one sample]; bytes with `unit_range`
  Array targets;            ///< [samples, ...target of one sample]
  bool unit_range = false;  ///< an input is its row / 255, as float32
};

/// Constructor arguments of a dataset besides its options.
struct DatasetContext {
  uint64_t seed = 0;  ///< the recipe's
  bool train = true;  ///< false: the eval set; synthetic datasets draw other samples
  /// False: prediction. Datasets then need no target columns or folders, and targets of samples
  /// are undefined.
  bool targets = true;
};

/// Map-style dataset. Implementations live in data/ or in a plugin; their constructor opens and
/// validates the files and throws DataError.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  /// The sample at `index` in [0, size()). Thread-safe.
  virtual Sample sample(int64_t index) const = 0;
  virtual DataShape shape() const = 0;
  /// The arrays of which the samples are rows, for batched reads; equal to sample(). Called once.
  /// None for other samples.
  virtual std::optional<Columns> columns() const { return std::nullopt; }
  /// Digest of the data, saved in checkpoints and compared on resume.
  virtual std::string fingerprint() const = 0;
  /// Name of a sample for messages, such as "cat/1.jpg"; empty: its index is its name.
  virtual std::string name(int64_t /*index*/) const { return {}; }
};

/// Constructor arguments of a transform besides its options.
struct TransformContext {
  DataShape shape;    ///< of the input samples
  bool train = true;  ///< random augmentation acts on training data only
};

/// Transform of single samples.
class Transform {
 public:
  virtual ~Transform() = default;

  /// Thread-safe; all randomness comes from `rng`.
  virtual Sample apply(Sample sample, SampleRng& rng) const = 0;
  /// Of the output samples.
  virtual DataShape shape() const = 0;
};

}  // namespace accel
