// Runs the passes of a compiled model as one function of autograd's.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "runner/formats/compiled_model.h"

namespace accel {

class CompiledPasses {
 public:
  /// Loads the code, which runs its initialisers. `tensors` are those of `model`, in its order;
  /// buffers among them get their new values from each forward pass. Throws Error (kRecipe) for
  /// code that cannot be loaded, IoError when there is no room to put it.
  CompiledPasses(CompiledModel model, std::vector<at::Tensor> tensors);
  ~CompiledPasses();

  /// The module's output, for which gradients of the trained parameters can be asked. `inputs` are
  /// forward()'s, contiguous. Throws Error (kRecipe) when the code fails.
  at::Tensor train(const std::vector<at::Tensor>& inputs) const;
  at::Tensor evaluate(const std::vector<at::Tensor>& inputs) const;

  class State;

 private:
  c10::intrusive_ptr<State> state_;
};

}  // namespace accel
