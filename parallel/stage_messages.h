// Messages between pipeline stages on different ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/pipeline/schedule.h"

namespace accel {

/// Type and shape of an activation.
struct ActivationForm {
  at::ScalarType dtype;
  std::vector<int64_t> sizes;
};

/// What one stage sends to another.
struct StageTensors {
  at::Tensor values;        ///< an activation or its gradient
  at::Tensor numbers = {};  ///< float32, of a StageLoss; undefined: none
};

/// Sends and receives in the order of a schedule. Messages to higher and to lower ranks travel in
/// groups of their own, so that opposite ones do not wait for each other. A stage's form is sent
/// once for each shape of its micro-batches. For one thread.
class StageMessages {
 public:
  /// `up` and `down` have the ranks of the pipeline.
  StageMessages(std::shared_ptr<Communicator> up, std::shared_ptr<Communicator> down,
                at::Device device);

  /// Starts to send; the tensor must not change before finish(). `key` names the shapes of the
  /// micro-batch, the same on both ranks, of an activation; "" with a gradient.
  void send(const PipelineMessage& message, const StageTensors& tensors, const std::string& key);
  /// Starts to receive, if the form is known and the message has not been started. `numbers`: how
  /// many the sender sends.
  void expect_activation(const PipelineMessage& message, const std::string& key, int64_t numbers);
  void expect_gradient(const PipelineMessage& message, const at::Tensor& like, int64_t numbers);
  /// Receives; `key` as of send().
  StageTensors receive_activation(const PipelineMessage& message, const std::string& key,
                                  int64_t numbers);
  /// `like`: the activation whose gradient it is.
  StageTensors receive_gradient(const PipelineMessage& message, const at::Tensor& like,
                                int64_t numbers);
  /// Waits for all sends.
  void finish();

 private:
  struct Started {
    StageTensors tensors;
    std::unique_ptr<Pending> pending;
  };
  /// The type of a form, the number of its dimensions, and their sizes.
  using FormNumbers = std::array<int64_t, 10>;
  using FormKey = std::pair<int64_t, std::string>;  // the receiving stage, the shapes

  static FormNumbers numbers_of(const ActivationForm& form);
  static ActivationForm form_of(const FormNumbers& numbers);
  /// A view.
  static at::Tensor tensor_of(FormNumbers& numbers);
  Communicator& group(const PipelineMessage& message) const;
  /// Text of the message that outlives this object.
  const char* purpose(const PipelineMessage& message);
  void start_receive(const PipelineMessage& message, const ActivationForm& form, int64_t numbers);
  StageTensors take(const PipelineMessage& message);

  std::shared_ptr<Communicator> up_, down_;
  at::Device device_;
  std::map<FormKey, ActivationForm> forms_;
  std::map<std::string, Started> expected_;  ///< by the message's text
  std::set<std::string> purposes_;
  std::deque<Started> sent_;
  std::deque<FormNumbers> sent_forms_;
};

}  // namespace accel
