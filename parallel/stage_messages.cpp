#include "parallel/stage_messages.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

namespace accel {
namespace {

constexpr auto kFormPurpose = "shape of activations";

}  // namespace

StageMessages::FormNumbers StageMessages::numbers_of(const ActivationForm& form) {
  FormNumbers numbers = {static_cast<int64_t>(form.dtype), static_cast<int64_t>(form.sizes.size())};
  std::copy(form.sizes.begin(), form.sizes.end(), numbers.begin() + 2);
  return numbers;
}

ActivationForm StageMessages::form_of(const FormNumbers& numbers) {
  return {static_cast<at::ScalarType>(numbers[0]),
          {numbers.begin() + 2, numbers.begin() + 2 + numbers[1]}};
}

at::Tensor StageMessages::tensor_of(FormNumbers& numbers) {
  return at::from_blob(numbers.data(), {static_cast<int64_t>(numbers.size())}, at::kLong);
}

StageMessages::StageMessages(std::shared_ptr<Communicator> up, std::shared_ptr<Communicator> down,
                             at::Device device)
    : up_(std::move(up)), down_(std::move(down)), device_(device) {}

Communicator& StageMessages::group(const PipelineMessage& message) const {
  return message.from < message.to ? *up_ : *down_;
}

const char* StageMessages::purpose(const PipelineMessage& message) {
  return purposes_.insert(to_string(message.received)).first->c_str();
}

void StageMessages::send(const PipelineMessage& message, const StageTensors& tensors,
                         const std::string& key) {
  const at::Tensor whole = tensors.values.detach().contiguous();
  const bool has_form = message.received.kind == ActionKind::kReceiveActivation;
  const FormKey form_key = {message.received.stage, key};
  if (has_form && !forms_.contains(form_key)) {
    const ActivationForm form = {whole.scalar_type(), whole.sizes().vec()};
    const at::Tensor numbers = tensor_of(sent_forms_.emplace_back(numbers_of(form)));
    sent_.push_back({{numbers},
                     group(message).start_messages({{Message::Kind::kSend, numbers, message.to}},
                                                   kFormPurpose)});
    forms_.emplace(form_key, form);
  }
  std::vector<Message> list = {{Message::Kind::kSend, whole, message.to}};
  if (tensors.numbers.defined()) {
    list.push_back({Message::Kind::kSend, tensors.numbers, message.to});
  }
  sent_.push_back(
      {{whole, tensors.numbers}, group(message).start_messages(list, purpose(message))});
}

void StageMessages::start_receive(const PipelineMessage& message, const ActivationForm& form,
                                  int64_t numbers) {
  const auto [place, is_new] = expected_.try_emplace(to_string(message.received));
  if (!is_new) return;
  Started& started = place->second;
  const at::TensorOptions options = at::TensorOptions(form.dtype).device(device_);
  started.tensors.values = at::empty(form.sizes, options);
  std::vector<Message> list = {{Message::Kind::kReceive, started.tensors.values, message.from}};
  if (numbers > 0) {
    started.tensors.numbers = at::empty({numbers}, options.dtype(at::kFloat));
    list.push_back({Message::Kind::kReceive, started.tensors.numbers, message.from});
  }
  started.pending = group(message).start_messages(list, purpose(message));
}

StageTensors StageMessages::take(const PipelineMessage& message) {
  auto node = expected_.extract(to_string(message.received));
  node.mapped().pending->wait();
  return std::move(node.mapped().tensors);
}

void StageMessages::expect_activation(const PipelineMessage& message, const std::string& key,
                                      int64_t numbers) {
  const auto form = forms_.find({message.received.stage, key});
  if (form != forms_.end()) start_receive(message, form->second, numbers);
}

void StageMessages::expect_gradient(const PipelineMessage& message, const at::Tensor& like,
                                    int64_t numbers) {
  start_receive(message, {like.scalar_type(), like.sizes().vec()}, numbers);
}

StageTensors StageMessages::receive_activation(const PipelineMessage& message,
                                               const std::string& key, int64_t numbers) {
  const FormKey form_key = {message.received.stage, key};
  if (!forms_.contains(form_key)) {
    FormNumbers received = {};
    group(message).receive(tensor_of(received), message.from, kFormPurpose);
    const auto own = std::find_if(forms_.begin(), forms_.end(),
                                  [&](const auto& item) { return item.first.second == key; });
    // A group for estimates receives nothing: stages have activations of one form.
    const bool is_fake = received[1] == 0 && own != forms_.end();
    forms_.emplace(form_key, is_fake ? own->second : form_of(received));
  }
  expect_activation(message, key, numbers);
  return take(message);
}

StageTensors StageMessages::receive_gradient(const PipelineMessage& message, const at::Tensor& like,
                                             int64_t numbers) {
  expect_gradient(message, like, numbers);
  return take(message);
}

void StageMessages::finish() {
  for (const Started& sent : sent_) sent.pending->wait();
  sent_.clear();
  sent_forms_.clear();
}

}  // namespace accel
