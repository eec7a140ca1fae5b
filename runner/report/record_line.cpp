#include "runner/report/record_line.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace accel {
namespace {

using Json = nlohmann::json;

/// Takes a line as it is parsed: no tree is built, as a record may have millions of lines.
class RecordLineReader final : public nlohmann::json_sax<Json> {
 public:
  RecordLine line;

  bool null() override { return number(std::numeric_limits<double>::quiet_NaN()); }
  bool boolean(bool value) override {
    if (depth_ == 1 && key_ == "skipped") line.skipped = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    if (depth_ == 1 && key_ == "step") line.step = value;
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto kMost = static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max());
    if (value > kMost) return false;
    return number_integer(static_cast<number_integer_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    if (depth_ == 2 && line.kind == RecordLine::Kind::kAbout) {
      line.texts.emplace_back(key_, std::move(value));
    }
    if (depth_ != 1) return true;
    if (key_ == "loss_bits") line.kind = RecordLine::Kind::kStep;
    if (key_ == "event") {
      line.kind = RecordLine::Kind::kEvent;
      line.event = std::move(value);
    } else if (key_ == "text") {
      line.text = std::move(value);
    } else if (key_ == "time") {
      line.time = std::move(value);
    }
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override {
    ++depth_;
    if (depth_ != 2) return depth_ == 1;
    if (key_ == "eval") line.kind = RecordLine::Kind::kEval;
    if (key_ == "log") line.kind = RecordLine::Kind::kLog;
    if (key_ == "use") line.kind = RecordLine::Kind::kUse;
    if (key_ == "plan") line.kind = RecordLine::Kind::kPlan;
    if (key_ == "actual") line.kind = RecordLine::Kind::kActual;
    if (key_ == "about") line.kind = RecordLine::Kind::kAbout;
    return true;
  }
  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return false; }
  bool end_array() override { return false; }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

 private:
  bool number(double value) {
    if (depth_ == 2) {
      line.values.emplace_back(key_, value);
    } else if (key_ == "epoch") {
      line.epoch = value;
    } else if (key_ == "samples") {
      line.samples = value;
    } else if (key_ == "loss") {
      line.loss = value;
    } else if (key_ == "grad_norm") {
      line.grad_norm = value;
    } else if (key_ == "lr") {
      line.lr = value;
    }
    return depth_ > 0;
  }

  int depth_ = 0;
  std::string key_;
};

}  // namespace

std::optional<RecordLine> read_record_line(std::string_view line) {
  RecordLineReader reader;
  if (!Json::sax_parse(line, &reader) || reader.line.step < 0) return std::nullopt;
  return std::move(reader.line);
}

}  // namespace accel
