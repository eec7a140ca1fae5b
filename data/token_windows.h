// How a long sequence of tokens becomes samples: what `text` and `tokens` have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/dataset.h"
#include "core/schema.h"
#include "data/fingerprint.h"

namespace accel {

struct WindowOptions {
  int64_t context = 64;
  Auto<int64_t> stride;
  double from = 0.0;
  double to = 1.0;
};

/// Adds the options of WindowOptions, which `Options` derives from, to a schema.
template <class Options>
Schema<Options> with_window_options(Schema<Options> schema) {
  return std::move(schema)
      .field("context", static_cast<int64_t Options::*>(&Options::context), "Tokens of one sample.",
             at_least<int64_t>(1))
      .field("stride", static_cast<Auto<int64_t> Options::*>(&Options::stride),
             "Tokens from the start of one sample to that of the next; auto: 'context'. 1 gives a "
             "sample at every token.",
             if_given<Auto>(at_least<int64_t>(1)))
      .field("from", static_cast<double Options::*>(&Options::from),
             "Where this part of the file begins, as a fraction of its tokens.", within(0.0, 1.0))
      .field("to", static_cast<double Options::*>(&Options::to),
             "Where it ends: train on 0 to 0.9 and evaluate on 0.9 to 1.", between(0.0, 1.0))
      .check([](const Options& options, const Node& node, Reading& reading) {
        if (options.from >= options.to) {
          reading.problems.error(node.where, "'from' must be less than 'to'");
        }
      });
}

/// The samples of a sequence: each `context` tokens and, as targets, the ones that follow them.
class TokenWindows {
 public:
  /// `tokens` are in the whole file. Throws DataError when the part holds no sample.
  TokenWindows(const WindowOptions& options, int64_t tokens, const std::string& path);

  int64_t size() const { return size_; }
  /// The sample at `index`; `read` puts the tokens from `first` on into `ids`.
  Sample sample(int64_t index,
                const std::function<void(int64_t first, std::span<int64_t> ids)>& read) const;
  /// Everything but `vocab` and `labels`.
  DataShape shape() const;
  void add_to(Fingerprint& fingerprint) const;

 private:
  int64_t context_;
  int64_t stride_;
  int64_t first_;
  int64_t size_ = 0;
};

}  // namespace accel
