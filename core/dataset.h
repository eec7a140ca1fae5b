// Where samples come from and how they are changed on the way. No libtorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/array.h"
#include "core/data_shape.h"
#include "core/sample_rng.h"

namespace accel {

/// One example.
struct Sample {
  Array input;
  Array target;
  Array segments =
      {};  ///< which of several texts each token belongs to, like a token input; or none
};

/// Samples that are rows of arrays in memory.
struct Columns {
  Array inputs;             ///< [samples, ...input of one sample]; bytes with `unit_range`
  Array targets;            ///< [samples, ...target of one sample]
  bool unit_range = false;  ///< an input is its row / 255, as float32
};

/// What a dataset's constructor is told besides its options.
struct DatasetContext {
  uint64_t seed = 0;  ///< the recipe's
  bool train = true;  ///< false for the eval set: synthetic ones draw other samples
  /// False: nobody asks for targets. Datasets that read them from columns or folders then need
  /// none, and give samples whose target means nothing.
  bool targets = true;
};

/// A finite, indexable set of samples. Implementations live in data/ or in a plugin; they open and
/// check their files in the constructor and throw DataError when something is wrong.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  /// The sample at `index` in [0, size()). Called from several threads at once.
  virtual Sample sample(int64_t index) const = 0;
  virtual DataShape shape() const = 0;
  /// What its samples are rows of, so that a batch of them is read at once; sample() gives the
  /// same. Asked once. Nothing where a sample is more than that.
  virtual std::optional<Columns> columns() const { return std::nullopt; }
  /// Changes when the data does: kept in checkpoints and compared on resume.
  virtual std::string fingerprint() const = 0;
  /// What a sample is known by, where its number is not what a user would look for: "cat/1.jpg".
  virtual std::string name(int64_t /*index*/) const { return {}; }
};

/// What a transform's constructor is told besides its options.
struct TransformContext {
  DataShape shape;    ///< of what comes in
  bool train = true;  ///< random augmentation acts on training data only
};

/// Changes samples one at a time.
class Transform {
 public:
  virtual ~Transform() = default;

  /// Called from several threads at once; all chance comes from `rng`.
  virtual Sample apply(Sample sample, SampleRng& rng) const = 0;
  /// What comes out, for what came in.
  virtual DataShape shape() const = 0;
};

}  // namespace accel
