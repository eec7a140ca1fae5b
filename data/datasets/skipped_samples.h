// Handling of unreadable samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/api/dataset.h"
#include "core/base/error.h"
#include "core/recipe/schema.h"

namespace accel {

/// The option `on_bad_sample`: the first unreadable sample ends the run, or up to `most` are
/// skipped.
struct OnBadSample {
  std::optional<int64_t> most = {};  ///< none: stop
};

/// Adds the member `on_bad_sample` to a schema.
template <class Options>
Schema<Options> with_bad_samples(Schema<Options> schema) {
  return std::move(schema).field(
      "on_bad_sample", static_cast<OnBadSample Options::*>(&Options::on_bad_sample),
      "stop: a sample that cannot be read is an error. skip(10): up to 10 of them are left out and "
      "counted, before the first step and on every rank alike.");
}

/// Counts the skipped samples of one source.
class BadSamples {
 public:
  /// `source` is a path for messages.
  BadSamples(OnBadSample wanted, std::string source)
      : wanted_(wanted), source_(std::move(source)) {}

  bool skips() const { return wanted_.most.has_value(); }
  /// Counts a skipped sample. Throws `error` if samples may not be skipped, and DataError beyond
  /// the limit.
  void leave_out(const DataError& error);
  int64_t count() const { return count_; }
  /// Logs the number of skipped samples and the first error. Throws DataError if no samples are
  /// `left`.
  void tell(int64_t left) const;

 private:
  OnBadSample wanted_;
  std::string source_;
  int64_t count_ = 0;
  std::vector<std::string> first_;
};

/// Implemented by datasets that may skip samples.
class SkipsSamples {
 public:
  virtual ~SkipsSamples() = default;
  virtual int64_t left_out() const = 0;
};

/// Number of samples that `dataset`, including its sources, has skipped.
int64_t left_out(const Dataset& dataset);

template <>
struct Codec<OnBadSample> {
  static std::string name() { return "'stop' or a number of samples such as 'skip(10)'"; }
  static std::string json() {
    return "\"type\": \"string\", \"pattern\": \"^(stop|skip\\\\([1-9][0-9]*\\\\))$\"";
  }
  static std::optional<OnBadSample> read(const Node& node, const std::string& name,
                                         Reading& reading);
  static Node write(const OnBadSample& value);
};

}  // namespace accel
