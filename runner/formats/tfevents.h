// TensorBoard event files: TFRecord frames around Event messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runner/formats/image.h"
#include "runner/formats/protobuf.h"

namespace accel {

/// Length, its checksum, the data, its checksum.
std::string tf_record(std::string_view data);

using HparamValue = std::variant<bool, double, std::string>;
using Hparams = std::vector<std::pair<std::string, HparamValue>>;

/// How the HParams page of TensorBoard shows that a run ended.
enum class HparamsStatus : uint8_t { kSuccess = 1, kFailure = 2 };

/// The values that one event holds. Times are seconds since 1970.
class TfSummary {
 public:
  /// Stored as float, as PyTorch does.
  void scalar(const std::string& tag, double value);
  /// Markdown, on the Text page.
  void text(const std::string& tag, const std::string& text);
  /// In the buckets PyTorch uses. Values that are not finite are left out; none left: writes
  /// nothing.
  void histogram(const std::string& tag, std::span<const float> values);
  /// `channels` is 1 (grey) or 3; `png` the file.
  void image(const std::string& tag, const ImageSize& size, int channels, const std::string& png);
  /// TensorBoard derives the columns from this and from the run's scalars.
  void hparams_start(const std::string& group, double start_time, const Hparams& hparams);
  void hparams_end(HparamsStatus status, double end_time);

  bool empty() const { return message_.encoded().empty(); }
  const ProtoMessage& message() const { return message_; }

 private:
  ProtoMessage message_;
};

/// The first record of every file.
std::string tf_version_event(double wall_time);

/// Tells readers to forget what earlier files say of `step` and later.
std::string tf_restart_event(double wall_time, int64_t step);

std::string tf_summary_event(double wall_time, int64_t step, const TfSummary& summary);

}  // namespace accel
