#include "runner/loop/show.h"

#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/utf8.h"
#include "runner/loop/train_loop.h"
#include "runner/track/picture_of.h"

namespace accel {
namespace {

/// Puts a sample where the report finds it.
void keep_sample(const LoopParts& parts, const std::string& name, const Picture& picture) try {
  if (parts.saves) write_picture(parts.run_dir + "/" + name + ".png", picture);
} catch (const IoError& error) {
  warn(std::string(error.what()) + ": the report goes without it");
}

}  // namespace

void show_histograms(const LoopParts& parts, int64_t step) {
  for (const NamedTensor& item : parts.job.parameters) {
    const at::Tensor flat = item.tensor.detach().flatten().to(at::kCPU, at::kFloat).contiguous();
    const std::span<const float> values(flat.const_data_ptr<float>(),
                                        static_cast<size_t>(flat.numel()));
    parts.trackers.histogram(step, "weights/" + item.name, values);
  }
}

void show_images(const LoopParts& parts, const Window& window) {
  const int64_t wanted = window.micro_batches.empty() ? 0 : parts.job.recipe.log.images;
  if (wanted == 0) return;
  const Array& inputs = window.micro_batches.front().inputs;
  for (int64_t i = 0; i < wanted; ++i) {
    std::optional<Picture> picture = picture_of(inputs, i);
    if (!picture && i == 0) warn("'log.images': the data has no images to show");
    if (!picture) return;
    const std::string name = "samples/" + std::to_string(i);
    keep_sample(parts, name, *picture);
    parts.trackers.image(1, name, std::move(*picture));
  }
}

void show_texts(const LoopParts& parts, int64_t step) {
  for (const auto& callback : parts.job.callbacks) {
    for (const CallbackText& item : callback->take_texts()) {
      parts.trackers.text(step, item.tag, item.text);
      parts.record.event(step, "text", item.tag + ": " + item.text);
      say(item.tag + " at step " + std::to_string(step));
      std::istringstream lines(item.text);
      for (std::string line; std::getline(lines, line);) say("  | " + printable(line));
    }
  }
}

}  // namespace accel
