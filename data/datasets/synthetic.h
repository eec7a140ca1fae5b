// Helpers of generated datasets.
#pragma once

#include <string>

#include "core/api/dataset.h"
#include "core/recipe/schema.h"
#include "data/datasets/fingerprint.h"

namespace accel {

/// The random generator of sample `index`: different for training and evaluation, and different
/// from the sample's augmentation.
inline SampleRng synthetic_rng(const DatasetContext& context, int64_t index) {
  constexpr uint64_t kTrain = ~uint64_t{0};  // an epoch number that does not occur
  constexpr uint64_t kEval = kTrain - 1;
  return {context.seed, context.train ? kTrain : kEval, static_cast<uint64_t>(index)};
}

/// Fingerprint of component `T`, whose options are scalars.
template <class T, class Options>
std::string synthetic_fingerprint(const Options& options, const DatasetContext& context) {
  Fingerprint fingerprint;
  fingerprint.add(T::kName).add(static_cast<int64_t>(context.seed)).add(context.train ? 1 : 0);
  const Node written = T::schema().write(options);
  for (const Node::Entry& entry : *written.map()) {
    fingerprint.add(entry.key).add(entry.node.scalar()->text);
  }
  return fingerprint.text();
}

}  // namespace accel
