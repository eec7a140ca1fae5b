#include "formats/tfevents.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <optional>

#include "core/base/bytes.h"
#include "core/base/regular_file.h"
#include "formats/checksum.h"

namespace accel {
namespace {

std::vector<double> make_default_edges() {
  std::vector<double> positive;
  for (double edge = 1e-12; edge < 1e20; edge *= 1.1) positive.push_back(edge);
  std::vector<double> edges;
  for (auto edge = positive.rbegin(); edge != positive.rend(); ++edge) edges.push_back(-*edge);
  edges.push_back(0);
  edges.insert(edges.end(), positive.begin(), positive.end());
  return edges;
}

/// The bucket [edges[i], edges[i + 1]) that holds `value`; the last bucket includes its right edge.
size_t bucket_of(double value, const std::vector<double>& edges) {
  const auto right = std::upper_bound(edges.begin(), edges.end(), value);
  return std::min(static_cast<size_t>(right - edges.begin()), edges.size() - 1) - 1;
}

}  // namespace

std::optional<TfHistogram> tf_histogram(std::span<const float> values) {
  static const std::vector<double> edges = make_default_edges();
  TfHistogram out;
  std::vector<double> counts(edges.size() - 1);
  size_t first = counts.size();
  size_t last = 0;
  for (const double value : values) {
    if (!(edges.front() <= value && value <= edges.back())) continue;  // nan too
    out.min = out.count == 0 ? value : std::min(out.min, value);
    out.max = out.count == 0 ? value : std::max(out.max, value);
    out.count += 1;
    out.sum += value;
    out.sum_squares += value * value;
    const size_t bucket = bucket_of(value, edges);
    counts[bucket] += 1;
    first = std::min(first, bucket);
    last = std::max(last, bucket);
  }
  if (out.count == 0) return std::nullopt;
  out.limits.assign(edges.begin() + static_cast<ptrdiff_t>(first),
                    edges.begin() + static_cast<ptrdiff_t>(last) + 2);
  out.counts = {0};
  out.counts.insert(out.counts.end(), counts.begin() + static_cast<ptrdiff_t>(first),
                    counts.begin() + static_cast<ptrdiff_t>(last) + 1);
  return out;
}

namespace {

// Field numbers from TensorFlow's and TensorBoard's .proto files.
namespace event {
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace session_log {
constexpr int kStatus = 1;
constexpr uint64_t kStart = 1;
}  // namespace session_log
namespace value {
constexpr int kTag = 1, kSimpleValue = 2, kImage = 4, kHistogram = 5, kTensor = 8, kMetadata = 9;
}
namespace image {
constexpr int kHeight = 1, kWidth = 2, kColorSpace = 3, kEncoded = 4;
}
namespace metadata {
constexpr int kPluginData = 1, kPluginName = 1, kContent = 2;
}
namespace tensor {
constexpr int kType = 1, kShape = 2, kStrings = 8, kDimension = 2, kSize = 1;
constexpr uint64_t kString = 7;
}  // namespace tensor
namespace hparams_data {
constexpr int kSessionStart = 3, kSessionEnd = 4;
constexpr int kHparams = 1, kGroupName = 4, kStartTime = 5;
constexpr int kStatus = 1, kEndTime = 2;
constexpr int kMapKey = 1, kMapValue = 2;
constexpr int kNumber = 2, kText = 3, kBool = 4;
}  // namespace hparams_data

constexpr int kSummaryValue = 1;

template <class T>
std::string_view bytes_of(const T& number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

ProtoMessage plugin_metadata(std::string_view plugin, const ProtoMessage& content = {}) {
  ProtoMessage data;
  data.text(metadata::kPluginName, plugin).message(metadata::kContent, content);
  return ProtoMessage().message(metadata::kPluginData, data);
}

ProtoMessage hparam_value(const HparamValue& value) {
  ProtoMessage out;
  if (const bool* flag = std::get_if<bool>(&value)) return out.varint(hparams_data::kBool, *flag);
  if (const double* number = std::get_if<double>(&value)) {
    return out.number(hparams_data::kNumber, *number);
  }
  return out.text(hparams_data::kText, std::get<std::string>(value));
}

/// A summary value of metadata only, for the HParams page.
ProtoMessage hparams_record(const std::string& tag, const ProtoMessage& content) {
  ProtoMessage out;
  return out.text(value::kTag, tag).message(value::kMetadata, plugin_metadata("hparams", content));
}

ProtoMessage event_at(double wall_time, int64_t step) {
  ProtoMessage out;
  return out.number(event::kWallTime, wall_time).varint(event::kStep, static_cast<uint64_t>(step));
}

}  // namespace

std::string tf_record(std::string_view data) {
  const uint64_t length = data.size();
  const uint32_t length_checksum = masked_crc32c(bytes_of(length));
  const uint32_t data_checksum = masked_crc32c(data);
  std::string out;
  out += bytes_of(length);
  out += bytes_of(length_checksum);
  out += data;
  out += bytes_of(data_checksum);
  return out;
}

void TfSummary::scalar(const std::string& tag, double number) {
  ProtoMessage entry;
  entry.text(value::kTag, tag).number(value::kSimpleValue, static_cast<float>(number));
  message_.message(kSummaryValue, entry);
}

std::string tf_text_tag(const std::string& tag) {
  return tag + "/text_summary";
}

void TfSummary::text(const std::string& tag, const std::string& text) {
  const ProtoMessage size = ProtoMessage().varint(tensor::kSize, 1);
  const ProtoMessage shape = ProtoMessage().message(tensor::kDimension, size);
  ProtoMessage content;
  content.varint(tensor::kType, tensor::kString)
      .message(tensor::kShape, shape)
      .text(tensor::kStrings, text);
  ProtoMessage entry;
  entry.text(value::kTag, tf_text_tag(tag))
      .message(value::kTensor, content)
      .message(value::kMetadata, plugin_metadata("text"));
  message_.message(kSummaryValue, entry);
}

void TfSummary::histogram(const std::string& tag, std::span<const float> values) {
  const std::optional<TfHistogram> counted = tf_histogram(values);
  if (!counted) return;
  ProtoMessage histogram;
  histogram.number(1, counted->min)
      .number(2, counted->max)
      .number(3, counted->count)
      .number(4, counted->sum)
      .number(5, counted->sum_squares)
      .packed(6, counted->limits)
      .packed(7, counted->counts);
  ProtoMessage entry;
  entry.text(value::kTag, tag).message(value::kHistogram, histogram);
  message_.message(kSummaryValue, entry);
}

void TfSummary::image(const std::string& tag, const ImageSize& size, int channels,
                      const std::string& png) {
  ProtoMessage content;
  content.varint(image::kHeight, static_cast<uint64_t>(size.height))
      .varint(image::kWidth, static_cast<uint64_t>(size.width))
      .varint(image::kColorSpace, static_cast<uint64_t>(channels))
      .bytes(image::kEncoded, png);
  ProtoMessage entry;
  entry.text(value::kTag, tag).message(value::kImage, content);
  message_.message(kSummaryValue, entry);
}

void TfSummary::hparams_start(const std::string& group, double start_time, const Hparams& hparams) {
  ProtoMessage session;
  for (const auto& [name, value] : hparams) {
    ProtoMessage entry;
    entry.text(hparams_data::kMapKey, name).message(hparams_data::kMapValue, hparam_value(value));
    session.message(hparams_data::kHparams, entry);
  }
  session.text(hparams_data::kGroupName, group).number(hparams_data::kStartTime, start_time);
  const ProtoMessage content = ProtoMessage().message(hparams_data::kSessionStart, session);
  message_.message(kSummaryValue, hparams_record("_hparams_/session_start_info", content));
}

void TfSummary::hparams_end(HparamsStatus status, double end_time) {
  ProtoMessage session;
  session.varint(hparams_data::kStatus, static_cast<uint64_t>(status))
      .number(hparams_data::kEndTime, end_time);
  const ProtoMessage content = ProtoMessage().message(hparams_data::kSessionEnd, session);
  message_.message(kSummaryValue, hparams_record("_hparams_/session_end_info", content));
}

std::string tf_version_event(double wall_time) {
  ProtoMessage out;
  out.number(event::kWallTime, wall_time).text(event::kFileVersion, "brain.Event:2");
  return tf_record(out.encoded());
}

std::string tf_restart_event(double wall_time, int64_t step) {
  const ProtoMessage start = ProtoMessage().varint(session_log::kStatus, session_log::kStart);
  return tf_record(event_at(wall_time, step).message(event::kSessionLog, start).encoded());
}

std::string tf_summary_event(double wall_time, int64_t step, const TfSummary& summary) {
  return tf_record(event_at(wall_time, step).message(event::kSummary, summary.message()).encoded());
}

namespace {

template <class T>
T number_in(std::string_view bytes) {
  T value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::vector<std::string> tags_in(std::string_view summary) {
  std::vector<std::string> tags;
  each_field(summary, [&](const ProtoField& entry) {
    if (entry.number != kSummaryValue) return;
    each_field(entry.bytes, [&](const ProtoField& field) {
      if (field.number == value::kTag) tags.emplace_back(field.bytes);
    });
  });
  return tags;
}

bool is_start(std::string_view log) {
  bool found = false;
  each_field(log, [&](const ProtoField& field) {
    if (field.number == session_log::kStatus) found = field.value == session_log::kStart;
  });
  return found;
}

TfEvent event_in(std::string_view message) {
  TfEvent out;
  each_field(message, [&](const ProtoField& field) {
    if (field.number == event::kStep) out.step = static_cast<int64_t>(field.value);
    if (field.number == event::kSummary) out.tags = tags_in(field.bytes);
    if (field.number == event::kSessionLog) out.restarts = is_start(field.bytes);
  });
  return out;
}

}  // namespace

TfEventReader::TfEventReader(const std::string& path) : file_(open_regular_file(path)) {
  std::error_code missing;
  const uint64_t size = std::filesystem::file_size(path, missing);
  if (!missing) left_ = size;
}

std::optional<TfEvent> TfEventReader::next() {
  constexpr uint64_t kLength = sizeof(uint64_t), kChecksum = sizeof(uint32_t);
  std::string head, body;
  if (!read(head, kLength + kChecksum)) return std::nullopt;
  const std::string_view length_bytes = std::string_view(head).substr(0, kLength);
  if (number_in<uint32_t>(head.substr(kLength)) != masked_crc32c(length_bytes)) return std::nullopt;
  const auto length = number_in<uint64_t>(length_bytes);
  if (length > left_ || !read(body, length + kChecksum)) return std::nullopt;
  const std::string_view message = std::string_view(body).substr(0, length);
  if (number_in<uint32_t>(body.substr(length)) != masked_crc32c(message)) return std::nullopt;
  try {
    return event_in(message);
  } catch (const FormatError&) {
    return std::nullopt;
  }
}

bool TfEventReader::read(std::string& bytes, uint64_t count) {
  if (count > left_) return false;
  bytes.resize(count);
  if (!file_.read(bytes.data(), static_cast<std::streamsize>(count))) return false;
  left_ -= count;
  return true;
}

}  // namespace accel
