#include "models/layers/offloaded_inputs.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace accel {
namespace {

/// `from` to `to`, after what the current stream has queued; the result is recorded at the end.
c10::Event copy_on(const c10::Stream& copies, const at::Tensor& from, const at::Tensor& to) {
  const c10::impl::VirtualGuardImpl device(copies.device_type());
  c10::Event ready(copies.device_type());
  ready.record(device.getStream(copies.device()));
  ready.block(copies);
  const c10::StreamGuard guard(copies);
  to.copy_(from, /*non_blocking=*/true);
  c10::Event done(copies.device_type());
  done.record(copies);
  return done;
}

void wait_on_current_stream(const c10::Event& event, const c10::Stream& copies) {
  event.block(c10::impl::VirtualGuardImpl(copies.device_type()).getStream(copies.device()));
}

}  // namespace

/// One input. Memory of the device is allocated and freed on the current stream, which waits for
/// the copies before it does so.
class OffloadedInputs::Entry {
 public:
  Entry(const at::Tensor& input, const c10::Stream& copies, std::weak_ptr<Entry> before)
      : device_(input),
        host_(at::empty_like(input.detach(), input.options().device(at::kCPU).pinned_memory(true))),
        copies_(copies),
        done_(copy_on(copies, input.detach(), host_)),
        before_(std::move(before)),
        requires_grad_(input.requires_grad()) {}

  ~Entry() {
    try {
      release();
    } catch (const c10::Error&) {
      // The device failed, which the pass that uses it reports.
    }
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  /// Frees the input's memory on the device.
  void release() {
    if (!device_.defined()) return;
    wait_on_current_stream(done_, copies_);
    device_.reset();
  }

  void prefetch() {
    if (device_.defined()) return;
    device_ = at::empty_like(host_, host_.options().device(copies_.device()).pinned_memory(false));
    done_ = copy_on(copies_, host_, device_);
    device_.requires_grad_(requires_grad_);
    is_fetched_ = true;
  }

  at::Tensor get() {
    prefetch();
    if (!is_fetched_) return device_;
    if (const auto before = before_.lock()) before->prefetch();
    wait_on_current_stream(done_, copies_);
    return std::exchange(device_, {});
  }

 private:
  at::Tensor device_, host_;
  c10::Stream copies_;
  c10::Event done_;  ///< of the last copy
  std::weak_ptr<Entry> before_;
  bool requires_grad_;
  bool is_fetched_ = false;
};

std::function<at::Tensor()> OffloadedInputs::store(const at::Tensor& input) {
  if (const auto last = last_.lock()) last->release();
  if (input.device().is_cpu()) return [input] { return input; };
  if (!copies_) {
    const c10::impl::VirtualGuardImpl device(input.device().type());
    copies_ = device.getStreamFromGlobalPool(input.device());
  }
  const auto entry = std::make_shared<Entry>(input, *copies_, std::exchange(last_, {}));
  last_ = entry;
  return [entry] { return entry->get(); };
}

}  // namespace accel
