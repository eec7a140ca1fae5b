#include "infer/answer_lines.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include <ATen/ops/from_blob.h>

namespace accel {
namespace {

using Json = nlohmann::ordered_json;

std::string bytes_of_number(double number) {
  std::string out(sizeof number, '\0');
  std::memcpy(out.data(), &number, sizeof number);
  return out;
}

}  // namespace

std::optional<AnswerLines> AnswerLines::of(const Task& task, const Dataset& dataset) {
  const auto* finds = dynamic_cast<const FindsAnswers*>(&task);
  if (!finds || !has_question_windows(dataset.shape())) return std::nullopt;
  std::optional<Questions> questions = Questions::of(dataset);
  if (!questions) return std::nullopt;
  return AnswerLines(*std::move(questions), finds->answer_options());
}

void AnswerLines::add(const Batch& batch, const at::Tensor& output, int64_t count) {
  const at::Tensor rows = output.to(at::kDouble).cpu().contiguous();
  const auto columns = static_cast<size_t>(rows.size(1));
  const double* next = rows.const_data_ptr<double>();
  width_ = columns + 1;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i, next += columns) {
    own_ += bytes_of_number(static_cast<double>(batch.ids[i]));
    for (size_t j = 0; j < columns; ++j) own_ += bytes_of_number(next[j]);
  }
}

void AnswerLines::gather(const DataRanks& ranks) {
  for (const std::string& bytes : ranks.gather(own_)) {
    const size_t before = numbers_.size();
    numbers_.resize(before + bytes.size() / sizeof(double));
    std::memcpy(numbers_.data() + before, bytes.data(), bytes.size());
  }
  own_.clear();
}

void AnswerLines::write(bool n_best, const std::function<void(const std::string&)>& line) const {
  if (numbers_.empty()) return;
  std::vector<double> numbers = numbers_;  // from_blob() takes no constant memory
  const at::Tensor rows = at::from_blob(
      numbers.data(), {static_cast<int64_t>(numbers.size() / width_), static_cast<int64_t>(width_)},
      at::kDouble);
  for (const auto& [number, answer] : find_answers(questions_, rows, options_)) {
    Json out = {{"row", number}, {"id", questions_.question(number).id}, {"answer", answer.text}};
    if (options_.version_2_with_negative) out["null_score_diff"] = answer.null_score_diff;
    if (n_best) {
      Json spans = Json::array();
      for (const auto& [text, probability] : answer.n_best) {
        spans.push_back({{"text", text}, {"probability", probability}});
      }
      out["n_best"] = std::move(spans);
    }
    line(out.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

}  // namespace accel
