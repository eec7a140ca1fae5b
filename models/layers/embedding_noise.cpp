#include "models/layers/embedding_noise.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <stdexcept>
#include <utility>

#include "core/api/sample_rng.h"
#include "kernels/choice.h"

namespace accel {
namespace {

thread_local EmbeddingNoise* in_force = nullptr;

/// Of the random streams of NEFTune, apart from those of augmentation.
constexpr uint64_t kStream = 0x4e4546;

}  // namespace

EmbeddingNoise::EmbeddingNoise(double alpha, int64_t step, const std::vector<int64_t>& samples)
    : alpha_(alpha), step_(step), samples_(samples), before_(std::exchange(in_force, this)) {}

EmbeddingNoise::~EmbeddingNoise() {
  in_force = before_;
}

at::Tensor EmbeddingNoise::draw(at::IntArrayRef sizes) const {
  if (static_cast<size_t>(sizes[0]) != samples_.size()) {
    throw std::logic_error("noise needs one sample for each row of embeddings");
  }
  const double most = alpha_ / std::sqrt(static_cast<double>(sizes[1] * sizes[2]));
  const at::Tensor noise = at::empty(sizes, at::kFloat);
  for (size_t i = 0; i < samples_.size(); ++i) {
    SampleRng rng(kStream, static_cast<uint64_t>(step_), static_cast<uint64_t>(samples_[i]));
    const at::Generator generator = at::detail::createCPUGenerator(rng.next());
    noise[static_cast<int64_t>(i)].uniform_(-most, most, generator);
  }
  return noise;
}

at::Tensor with_embedding_noise(const at::Tensor& embeddings) {
  if (!in_force) return embeddings;
  in_force->applied_ = true;
  if (has_shapes_only()) return embeddings;
  return embeddings.add(in_force->draw(embeddings.sizes()).to(embeddings.options()));
}

}  // namespace accel
