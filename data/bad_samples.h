// What becomes of samples of a user's file that cannot be read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/dataset.h"
#include "core/error.h"
#include "core/schema.h"

namespace accel {

/// The value of `on_bad_sample`: the first such sample ends the run, or up to `most` are left out.
struct OnBadSample {
  std::optional<int64_t> most = {};  ///< none: stop
};

/// Adds `on_bad_sample`, a member of that name, to a dataset's options.
template <class Options>
Schema<Options> with_bad_samples(Schema<Options> schema) {
  return std::move(schema).field(
      "on_bad_sample", static_cast<OnBadSample Options::*>(&Options::on_bad_sample),
      "stop: a sample that cannot be read is an error. skip(10): up to 10 of them are left out and "
      "counted, before the first step and on every rank alike.");
}

/// Counts the samples that one source leaves out while it is opened.
class BadSamples {
 public:
  /// `source` is for messages: the path.
  BadSamples(OnBadSample wanted, std::string source)
      : wanted_(wanted), source_(std::move(source)) {}

  bool skips() const { return wanted_.most.has_value(); }
  /// Takes what is wrong with a sample, its place included. Throws it again where the first one
  /// ends the run, and DataError for one more than may be left out.
  void leave_out(const DataError& error);
  int64_t count() const { return count_; }
  /// Says on standard error how many were left out, and what is wrong with the first of them.
  /// Throws DataError when `left` is 0, which counts the samples that were not.
  void tell(int64_t left) const;

 private:
  OnBadSample wanted_;
  std::string source_;
  int64_t count_ = 0;
  std::vector<std::string> first_;
};

/// Beside Dataset, for those that leave samples out.
class LeavesOut {
 public:
  virtual ~LeavesOut() = default;
  virtual int64_t left_out() const = 0;
};

/// Samples that `dataset`, or what it is made of, has left out.
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
