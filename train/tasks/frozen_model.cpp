#include "train/tasks/frozen_model.h"

#include "core/base/text.h"

namespace accel {

void want_trained_weights(const Ref<Model>& model, const char* key, const Node& node,
                          Reading& reading) {
  const Node::Entry* weights = model.resolved.map() ? model.resolved.find("weights") : nullptr;
  if (!weights || !weights->node.scalar() || !weights->node.scalar()->text.empty()) return;
  const Node::Entry* option = node.find(key);
  reading.problems.error(option ? option->node.where : node.where,
                         text("'{}' has no 'weights': it would be a model with random weights, "
                              "and another one at each start",
                              key),
                         "name the folder of a trained model, or wrap a checkpoint's model: {type: "
                         "pretrained, model: ..., weights: CHECKPOINT}");
}

}  // namespace accel
