// TensorBoard event files: TFRecord frames around Event messages.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "formats/image/image.h"
#include "formats/protobuf.h"

namespace accel {

struct TfHistogram {
  double min = 0;
  double max = 0;
  double count = 0;
  double sum = 0;
  double sum_squares = 0;
  std::vector<double> limits;  ///< right edges of the buckets
  std::vector<double> counts;  ///< one per bucket
};

/// Counts `values` in PyTorch's default buckets: 0 and +-1e-12 * 1.1^k below 1e20, trimmed to the
/// non-empty range and one empty bucket on the left. Skips non-finite values and values outside;
/// none when no value remains.
std::optional<TfHistogram> tf_histogram(std::span<const float> values);

/// A TFRecord frame: length, its checksum, the data, its checksum.
std::string tf_record(std::string_view data);

using HparamValue = std::variant<bool, double, std::string>;
using Hparams = std::vector<std::pair<std::string, HparamValue>>;

/// A run's end status on TensorBoard's HParams page.
enum class HparamsStatus : uint8_t { kSuccess = 1, kFailure = 2 };

/// The tag of a text in its file.
std::string tf_text_tag(const std::string& tag);

/// The values of one event. Times are seconds since 1970.
class TfSummary {
 public:
  /// Stored as float, as PyTorch does.
  void scalar(const std::string& tag, double value);
  /// Markdown, on the Text page.
  void text(const std::string& tag, const std::string& text);
  /// Uses PyTorch's buckets and skips non-finite values; writes nothing without finite values.
  void histogram(const std::string& tag, std::span<const float> values);
  /// `channels` is 1 (grey) or 3; `png` is the encoded file.
  void image(const std::string& tag, const ImageSize& size, int channels, const std::string& png);
  /// TensorBoard derives the table's columns from this and the run's scalars.
  void hparams_start(const std::string& group, double start_time, const Hparams& hparams);
  void hparams_end(HparamsStatus status, double end_time);

  bool empty() const { return message_.encoded().empty(); }
  const ProtoMessage& message() const { return message_; }

 private:
  ProtoMessage message_;
};

/// The first record of every file.
std::string tf_version_event(double wall_time);

/// Makes readers drop events of earlier files from `step` on.
std::string tf_restart_event(double wall_time, int64_t step);

std::string tf_summary_event(double wall_time, int64_t step, const TfSummary& summary);

/// An event of a file, without its values.
struct TfEvent {
  int64_t step = 0;
  bool restarts = false;          ///< as tf_restart_event()
  std::vector<std::string> tags;  ///< of the values
};

/// Reads an event file up to its end or its first damaged record, where TensorBoard stops too. A
/// missing file is empty.
class TfEventReader {
 public:
  explicit TfEventReader(const std::string& path);

  std::optional<TfEvent> next();

 private:
  bool read(std::string& bytes, uint64_t count);

  std::ifstream file_;
  uint64_t left_ = 0;  ///< bytes of the file behind the current position
};

}  // namespace accel
