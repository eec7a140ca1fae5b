// What the datasets that need no files have in common.
#pragma once

#include <string>

#include "core/dataset.h"
#include "core/schema.h"
#include "data/fingerprint.h"

namespace accel {

/// The random numbers that sample `index` is made from: other ones for training and evaluation,
/// and never those of the sample's augmentation.
inline SampleRng synthetic_rng(const DatasetContext& context, int64_t index) {
  constexpr uint64_t kTrain = ~uint64_t{0};  // where no epoch will ever be
  constexpr uint64_t kEval = kTrain - 1;
  return {context.seed, context.train ? kTrain : kEval, static_cast<uint64_t>(index)};
}

/// Of the component `T`, whose options are all scalars and decide with the context what it draws.
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
