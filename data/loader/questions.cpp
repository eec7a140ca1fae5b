#include "data/loader/questions.h"

#include <algorithm>

#include "data/loader/source_sample.h"

namespace accel {

std::optional<Questions> Questions::of(const Dataset& dataset) {
  Questions out(dataset);
  const Dataset* last = nullptr;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const Dataset* source = source_sample(dataset, i).dataset;
    if (source == last) continue;
    last = source;
    const bool known = std::any_of(out.sources_.begin(), out.sources_.end(),
                                   [&](const auto& item) { return item.first == source; });
    if (known) continue;
    const auto* windows = dynamic_cast<const QuestionWindows*>(source);
    if (!windows) return std::nullopt;
    out.sources_.emplace_back(source, windows);
    out.offsets_.push_back(out.offsets_.back() + windows->num_questions());
  }
  if (out.sources_.empty()) return std::nullopt;
  return out;
}

QuestionText Questions::question(int64_t number) const {
  const auto end = std::upper_bound(offsets_.begin(), offsets_.end(), number);
  const auto source = static_cast<size_t>(end - offsets_.begin()) - 1;
  return sources_[source].second->question(number - offsets_[source]);
}

QuestionWindow Questions::window(int64_t index) const {
  const SourceSample sample = source_sample(*dataset_, index);
  const auto found = std::find_if(sources_.begin(), sources_.end(),
                                  [&](const auto& item) { return item.first == sample.dataset; });
  QuestionWindow out = found->second->window(sample.index);
  out.question += offsets_[static_cast<size_t>(found - sources_.begin())];
  return out;
}

}  // namespace accel
