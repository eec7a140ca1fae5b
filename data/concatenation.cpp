#include "data/concatenation.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace accel {
namespace {

std::string describe(DType type, const Shape& shape) {
  return std::string(name_of(type)) + " " + to_string(shape);
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return "[" + out + "]";
}

struct Fact {
  const char* name;
  std::string (*text)(const DataShape&);
};

// Everything a model, a task or a metric is sized from.
constexpr Fact kFacts[] = {
    {"inputs", [](const DataShape& s) { return describe(s.input_type, s.input); }},
    {"targets", [](const DataShape& s) { return describe(s.target_type, s.target); }},
    {"classes", [](const DataShape& s) { return std::to_string(s.classes); }},
    {"tokens", [](const DataShape& s) { return std::to_string(s.vocab); }},
    {"fills",
     [](const DataShape& s) { return s.padding ? std::to_string(s.padding->input) : "none"; }},
    {"labels", [](const DataShape& s) { return joined(s.labels); }},
};

}  // namespace

void require_same_shape(const std::vector<std::shared_ptr<const Dataset>>& sources) {
  const DataShape wanted = sources.front()->shape();
  for (size_t i = 1; i < sources.size(); ++i) {
    const DataShape found = sources[i]->shape();
    for (const Fact& fact : kFacts) {
      if (fact.text(found) == fact.text(wanted)) continue;
      throw DataError("the " + std::string(fact.name) + " of dataset " + std::to_string(i + 1) +
                          " are " + fact.text(found) + ", but those of dataset 1 are " +
                          fact.text(wanted),
                      "datasets that are trained on together must hold samples of one kind");
    }
  }
}

Concatenation::Concatenation(std::vector<std::shared_ptr<const Dataset>> sources)
    : sources_(std::move(sources)), offsets_{0} {
  for (const auto& source : sources_) offsets_.push_back(offsets_.back() + source->size());
}

size_t Concatenation::source_of(int64_t index) const {
  const auto end = std::upper_bound(offsets_.begin(), offsets_.end(), index);
  return static_cast<size_t>(end - offsets_.begin()) - 1;
}

Sample Concatenation::sample(int64_t index) const {
  const size_t source = source_of(index);
  return sources_[source]->sample(index - offsets_[source]);
}

bool Concatenation::lengths_known() const {
  return std::all_of(sources_.begin(), sources_.end(), [](const auto& source) {
    const auto* known = dynamic_cast<const KnowsLengths*>(source.get());
    return known && known->lengths_known();
  });
}

int64_t Concatenation::length(int64_t index) const {
  const size_t source = source_of(index);
  return dynamic_cast<const KnowsLengths&>(*sources_[source]).length(index - offsets_[source]);
}

int64_t Concatenation::left_out() const {
  int64_t sum = 0;
  for (const auto& source : sources_) sum += accel::left_out(*source);
  return sum;
}

std::string Concatenation::fingerprint() const {
  std::string all;
  for (const auto& source : sources_) all += (all.empty() ? "" : "+") + source->fingerprint();
  return all;
}

}  // namespace accel
