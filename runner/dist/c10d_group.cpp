#include "runner/dist/c10d_group.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <chrono>
#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "core/error.h"

namespace accel {
namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// The first line of what c10d says, without the place in its source that stands in front.
std::string plain_text(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  const size_t place = line.starts_with('[') ? line.find("] ") : line.npos;
  return place == line.npos ? line : line.substr(place + 2);
}

bool tells_of_time(const std::string& text) {
  for (const char* words : {"timed out", "Timed out", "timeout", "Timeout"}) {
    if (text.find(words) != text.npos) return true;
  }
  return false;
}

c10d::ReduceOp::RedOpType c10d_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return c10d::ReduceOp::SUM;
    case ReduceOp::kMax:
      return c10d::ReduceOp::MAX;
    case ReduceOp::kMin:
      return c10d::ReduceOp::MIN;
  }
  throw std::logic_error("no such reduction");
}

class C10dGroup final : public Communicator {
 public:
  C10dGroup(const GroupOptions& options, BackendPtr host, BackendPtr device)
      : options_(options), host_(std::move(host)), device_(std::move(device)) {}

  int64_t rank() const override { return options_.rank; }
  int64_t world() const override { return options_.world; }

  std::unique_ptr<Pending> start_all_reduce(at::Tensor tensor, ReduceOp op,
                                            const char* what) override {
    return begin(what, [&] {
      std::vector<at::Tensor> tensors = {tensor};
      c10d::AllreduceOptions wanted;
      wanted.reduceOp = c10d_op(op);
      return backend_of(tensor).allreduce(tensors, wanted);
    });
  }

  void broadcast(at::Tensor tensor, int64_t root, const char* what) override {
    begin(what, [&] {
      std::vector<at::Tensor> tensors = {tensor};
      c10d::BroadcastOptions wanted;
      wanted.rootRank = root;
      return backend_of(tensor).broadcast(tensors, wanted);
    })->wait();
  }

  at::Tensor all_gather(const at::Tensor& tensor, const char* what) override {
    std::vector<int64_t> shape = {options_.world};
    shape.insert(shape.end(), tensor.sizes().begin(), tensor.sizes().end());
    at::Tensor all = tensor.new_empty(shape);
    begin(what, [&] {
      at::Tensor out = all.view({-1}), in = tensor.reshape({-1});
      return backend_of(tensor)._allgather_base(out, in);
    })->wait();
    return all;
  }

  void barrier(const char* what) override {
    begin(what, [&] { return host_->barrier(); })->wait();
  }

 private:
  class InFlight final : public Pending {
   public:
    InFlight(C10dGroup& group, WorkPtr work, const char* what, int64_t sequence)
        : group_(group), work_(std::move(work)), what_(what), sequence_(sequence) {}

    void wait() override {
      RECORD_FUNCTION(std::string("wait for ") + what_, {});
      if (group_.options_.watch) group_.options_.watch->entered(what_, sequence_);
      group_.guarded(what_, sequence_, [this] { work_->wait(); });
      if (group_.options_.watch) group_.options_.watch->left();
    }

   private:
    C10dGroup& group_;
    WorkPtr work_;
    const char* what_;
    int64_t sequence_;
  };

  c10d::Backend& backend_of(const at::Tensor& tensor) const {
    if (tensor.is_cpu()) return *host_;
    if (!device_) throw std::logic_error("the group has no backend for " + tensor.device().str());
    return *device_;
  }

  template <class Start>
  std::unique_ptr<Pending> begin(const char* what, Start start) {
    RECORD_FUNCTION(std::string("start ") + what, {});
    const int64_t sequence = ++sequence_;
    if (options_.watch) options_.watch->entered(what, sequence);
    WorkPtr work;
    guarded(what, sequence, [&] { work = start(); });
    if (options_.watch) options_.watch->left();
    return std::make_unique<InFlight>(*this, std::move(work), what, sequence);
  }

  /// Runs a part of a collective; what c10d throws becomes an Error.
  template <class Part>
  void guarded(const char* what, int64_t sequence, Part part) {
    try {
      part();
    } catch (const std::exception& error) {
      const std::string place =
          "in collective " + std::to_string(sequence) + " '" + std::string(what) + "'";
      const std::string rank = "rank " + std::to_string(options_.rank);
      if (tells_of_time(error.what())) {
        throw Error(ExitCode::kTimeout,
                    rank + " waited for the others for longer than 'accelerator.timeout' " + place,
                    "look for the rank that did not come, or raise the time");
      }
      throw Error(ExitCode::kRank,
                  rank + " lost another rank " + place + ": " + plain_text(error.what()),
                  "what ended that one is in its own log");
    }
  }

  GroupOptions options_;
  BackendPtr host_;
  BackendPtr device_;  ///< null on the CPU
  int64_t sequence_ = 0;
};

}  // namespace

BackendPtr make_gloo_backend(const StorePtr& store, const GroupOptions& options,
                             const std::string& host) {
  try {
    auto gloo = c10d::ProcessGroupGloo::Options::create(
        std::chrono::milliseconds(static_cast<int64_t>(options.timeout * 1e3)));
    gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(host));
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(options.rank),
                                                       static_cast<int>(options.world), gloo);
  } catch (const std::exception& error) {
    throw Error(ExitCode::kRank,
                "rank " + std::to_string(options.rank) + " cannot connect to the others from '" +
                    host + "': " + plain_text(error.what()),
                "let the ranks reach each other on any port between their machines");
  }
}

std::unique_ptr<Communicator> make_c10d_group(const GroupOptions& options, BackendPtr host,
                                              BackendPtr device) {
  return std::make_unique<C10dGroup>(options, std::move(host), std::move(device));
}

}  // namespace accel
