#include "runner/dist/gloo_group.h"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "core/error.h"

namespace accel {
namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// The first line of what Gloo says, without the place in its source that stands in front.
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

c10d::ReduceOp::RedOpType gloo_op(ReduceOp op) {
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

class GlooGroup final : public Communicator {
 public:
  GlooGroup(const c10::intrusive_ptr<c10d::Store>& store, const GlooOptions& options)
      : options_(options) {
    auto gloo = c10d::ProcessGroupGloo::Options::create(
        std::chrono::milliseconds(static_cast<int64_t>(options.timeout * 1e3)));
    gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.host));
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(options.rank),
                                                         static_cast<int>(options.world), gloo);
  }

  int64_t rank() const override { return options_.rank; }
  int64_t world() const override { return options_.world; }

  std::unique_ptr<Pending> start_all_reduce(at::Tensor tensor, ReduceOp op,
                                            const char* what) override {
    return begin(what, [&] {
      std::vector<at::Tensor> tensors = {tensor};
      c10d::AllreduceOptions wanted;
      wanted.reduceOp = gloo_op(op);
      return group_->allreduce(tensors, wanted);
    });
  }

  void broadcast(at::Tensor tensor, int64_t root, const char* what) override {
    begin(what, [&] {
      std::vector<at::Tensor> tensors = {tensor};
      c10d::BroadcastOptions wanted;
      wanted.rootRank = root;
      return group_->broadcast(tensors, wanted);
    })->wait();
  }

  at::Tensor all_gather(const at::Tensor& tensor, const char* what) override {
    std::vector<int64_t> shape = {options_.world};
    shape.insert(shape.end(), tensor.sizes().begin(), tensor.sizes().end());
    at::Tensor all = tensor.new_empty(shape);
    begin(what, [&] {
      at::Tensor out = all.view({-1}), in = tensor.reshape({-1});
      return group_->_allgather_base(out, in);
    })->wait();
    return all;
  }

  void barrier(const char* what) override {
    begin(what, [&] { return group_->barrier(); })->wait();
  }

 private:
  class InFlight final : public Pending {
   public:
    InFlight(GlooGroup& group, WorkPtr work, const char* what, int64_t sequence)
        : group_(group), work_(std::move(work)), what_(what), sequence_(sequence) {}

    void wait() override {
      if (group_.options_.watch) group_.options_.watch->entered(what_, sequence_);
      group_.guarded(what_, sequence_, [this] { work_->wait(); });
      if (group_.options_.watch) group_.options_.watch->left();
    }

   private:
    GlooGroup& group_;
    WorkPtr work_;
    const char* what_;
    int64_t sequence_;
  };

  template <class Start>
  std::unique_ptr<Pending> begin(const char* what, Start start) {
    const int64_t sequence = ++sequence_;
    if (options_.watch) options_.watch->entered(what, sequence);
    WorkPtr work;
    guarded(what, sequence, [&] { work = start(); });
    if (options_.watch) options_.watch->left();
    return std::make_unique<InFlight>(*this, std::move(work), what, sequence);
  }

  /// Runs a part of a collective; what Gloo throws becomes an Error.
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

  GlooOptions options_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  int64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_gloo_group(const c10::intrusive_ptr<c10d::Store>& store,
                                              const GlooOptions& options) {
  try {
    return std::make_unique<GlooGroup>(store, options);
  } catch (const std::exception& error) {
    throw Error(ExitCode::kRank,
                "rank " + std::to_string(options.rank) + " cannot connect to the others from '" +
                    options.host + "': " + plain_text(error.what()),
                "let the ranks reach each other on any port between their machines");
  }
}

}  // namespace accel
