#include "data/loader/read_ahead.h"

namespace accel {

void read_singly(const Dataset& dataset) {
  const auto* reads = dynamic_cast<const ReadsAhead*>(&dataset);
  if (reads) reads->read_singly();
}

int64_t samples_ahead(const Dataset& dataset) {
  const auto* reads = dynamic_cast<const ReadsAhead*>(&dataset);
  return reads ? reads->samples_ahead() : 0;
}

void read_ahead(const Dataset& dataset, std::span<const int64_t> samples) {
  const auto* reads = dynamic_cast<const ReadsAhead*>(&dataset);
  if (reads) reads->read_ahead(samples);
}

void forget_ahead(const Dataset& dataset) {
  const auto* reads = dynamic_cast<const ReadsAhead*>(&dataset);
  if (reads) reads->forget_ahead();
}

bool exceeds_cache(const Dataset& dataset) {
  const auto* reads = dynamic_cast<const ReadsAhead*>(&dataset);
  return reads && reads->exceeds_cache();
}

}  // namespace accel
