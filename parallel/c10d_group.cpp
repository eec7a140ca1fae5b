#include "parallel/c10d_group.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <algorithm>

#include <chrono>
#include <exception>
#include <numeric>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "parallel/failure/hang_watch.h"
#include "parallel/failure/lost_ranks.h"
#include "parallel/shared_memory/block_exchange.h"

namespace accel {
namespace {

bool tells_of_loss(const std::string& text) {
  for (const char* words :
       {"closed by peer", "Connection reset", "Connection refused", "Broken pipe", "Read error",
        "Write error", "Socket closed", "remote process exited"}) {
    if (text.find(words) != text.npos) return true;
  }
  return false;
}

bool tells_of_time(const std::string& text) {
  for (const char* words : {"timed out", "Timed out", "timeout", "Timeout"}) {
    if (text.find(words) != text.npos) return true;
  }
  return false;
}

/// How C10D_NCCL_CHECK begins its messages, before a source location.
constexpr auto kNcclError = "NCCL error in: ";

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// The line of `text` that begins with `start`; "" if there is none.
std::string line_with(const std::string& text, const std::string& start) {
  const size_t at = ("\n" + text).find("\n" + start);
  return at == text.npos ? "" : first_line(text.substr(at));
}

/// Lines: kNcclError, source location, description and version; "ncclSystemError: ...", a
/// description of the code; "Last error:"; that of NCCL's log; the backtrace.
std::string nccl_message(const std::string& text) {
  constexpr std::string_view kLast = "Last error:\n";
  const std::string code = line_with(text, "nccl");
  const size_t last = text.find(kLast);
  const std::string cause = last == text.npos ? "" : first_line(text.substr(last + kLast.size()));
  if (code.empty()) return first_line(text);
  if (cause.empty() || cause.starts_with("Exception raised from")) return code;
  return code.substr(0, code.find(':')) + ": " + cause;
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
  throw std::logic_error("unknown reduction");
}

class C10dGroup final : public Communicator {
 public:
  C10dGroup(const StorePtr& store, const GroupOptions& options)
      : Communicator(options.rank, options.world), options_(options), store_(store) {
    if (options_.members.empty()) {
      options_.members.resize(static_cast<size_t>(options_.world));
      std::iota(options_.members.begin(), options_.members.end(), int64_t{0});
    }
    host_ = make_host_backend();
    if (options.device_backend) connect_devices();
  }

  std::unique_ptr<Pending> start_messages(const std::vector<Message>& messages,
                                          const char* purpose) override {
    if (messages.empty())
      return std::make_unique<Messages>(std::vector<std::unique_ptr<Pending>>());
    c10d::Backend& backend = backend_of(messages.front().tensor);
    // NCCL runs the messages of a coalesced group concurrently; Gloo's are concurrent anyhow.
    const bool coalesced = backend.supportsCoalescing();
    std::vector<std::unique_ptr<Pending>> started;
    if (coalesced) backend.startCoalescing();
    CollectiveCall all{.operation = "messages with", .purpose = purpose, .bytes = 0};
    all.on_device = !messages.front().tensor.is_cpu();
    for (const Message& message : messages) {
      const bool sends = message.kind == Message::Kind::kSend;
      CollectiveCall call = call_of(sends ? "send to" : "receive from", purpose, message.tensor);
      call.peers = {options_.members[static_cast<size_t>(message.peer)]};
      call.on_device = call.on_device && !coalesced;  // else it ends with `all`
      all.bytes += call.bytes;
      if (std::find(all.peers.begin(), all.peers.end(), call.peers.front()) == all.peers.end()) {
        all.peers.push_back(call.peers.front());
      }
      std::unique_ptr<Pending> pending = begin(call, [&] {
        std::vector<at::Tensor> tensors = {message.tensor};
        const auto peer = static_cast<int>(message.peer);
        return sends ? backend.send(tensors, peer, kMessageTag)
                     : backend.recv(tensors, peer, kMessageTag);
      });
      if (!coalesced) started.push_back(std::move(pending));
    }
    if (coalesced) started.push_back(begin(all, [&] { return backend.endCoalescing(); }));
    return std::make_unique<Messages>(std::move(started));
  }

  std::unique_ptr<Pending> start_all_reduce(at::Tensor tensor, ReduceOp op,
                                            const char* purpose) override {
    return begin(call_of("all-reduce", purpose, tensor), [&] {
      std::vector<at::Tensor> tensors = {tensor};
      c10d::AllreduceOptions wanted;
      wanted.reduceOp = c10d_op(op);
      return backend_of(tensor).allreduce(tensors, wanted);
    });
  }

  bool shares_memory() const override { return host_->supportsTensorAlloc(0); }
  at::Tensor shared_zeros(int64_t bytes, const char* purpose) override {
    if (!shares_memory()) return Communicator::shared_zeros(bytes, purpose);
    at::Tensor zeros;
    begin({.operation = "allocation", .purpose = purpose, .bytes = bytes}, [&]() -> WorkPtr {
      zeros = host_->allocateTensor(bytes);
      return {};
    });
    return zeros;
  }

  void broadcast(at::Tensor tensor, int64_t root, const char* purpose) override {
    begin(call_of("broadcast", purpose, tensor), [&] {
      std::vector<at::Tensor> tensors = {tensor};
      c10d::BroadcastOptions wanted;
      wanted.rootRank = root;
      return backend_of(tensor).broadcast(tensors, wanted);
    })->wait();
  }

  std::unique_ptr<Pending> start_all_gather(at::Tensor out, const at::Tensor& in,
                                            const char* purpose) override {
    return begin(call_of("all-gather", purpose, in), [&] {
      at::Tensor all = out.view({-1}), own = in.reshape({-1});
      return backend_of(in)._allgather_base(all, own);
    });
  }

  std::unique_ptr<Pending> start_reduce_scatter(at::Tensor out, const at::Tensor& in, ReduceOp op,
                                                const char* purpose) override {
    return begin(call_of("reduce-scatter", purpose, in), [&] {
      at::Tensor own = out.view({-1}), all = in.view({-1});
      c10d::ReduceScatterOptions wanted;
      wanted.reduceOp = c10d_op(op);
      return backend_of(in)._reduce_scatter_base(own, all, wanted);
    });
  }

  std::unique_ptr<Pending> start_all_to_all(at::Tensor out, const at::Tensor& in,
                                            const std::vector<int64_t>& out_rows,
                                            const std::vector<int64_t>& in_rows,
                                            const char* purpose) override {
    return begin(call_of("all-to-all", purpose, in), [&] {
      at::Tensor to = out, from = in;
      std::vector<int64_t> out_sizes = out_rows, in_sizes = in_rows;
      return backend_of(in).alltoall_base(to, from, out_sizes, in_sizes);
    });
  }

  void barrier(const char* purpose) override {
    begin({.operation = "barrier", .purpose = purpose}, [&] { return host_->barrier(); })->wait();
  }

  std::unique_ptr<Communicator> split(const Partition& partition) override {
    const std::vector<int64_t>& ranks = own_group(partition);
    GroupOptions options = options_;
    options.world = static_cast<int64_t>(ranks.size());
    options.rank = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
    options.members.clear();
    for (const int64_t member : ranks) {
      options.members.push_back(options_.members[static_cast<size_t>(member)]);
    }
    const std::string name = accel::text("split {}/{}", splits_++, ranks.front());
    options.name += "/" + name;
    return std::make_unique<C10dGroup>(prefixed(name), options);
  }

 private:
  static constexpr std::chrono::seconds kPatience = std::chrono::seconds(2);
  /// Of every message: a pair's messages are matched in the order of their calls.
  static constexpr int kMessageTag = 0;

  class Messages final : public Pending {
   public:
    explicit Messages(std::vector<std::unique_ptr<Pending>> started)
        : started_(std::move(started)) {}
    void wait() override {
      for (const std::unique_ptr<Pending>& message : started_) message->wait();
    }

   private:
    std::vector<std::unique_ptr<Pending>> started_;
  };

  class InFlight final : public Pending {
   public:
    InFlight(C10dGroup& group, WorkPtr work, const char* purpose, int64_t sequence)
        : group_(group), work_(std::move(work)), purpose_(purpose), sequence_(sequence) {}

    void wait() override {
      RECORD_FUNCTION(std::string("wait for ") + purpose_, {});
      if (group_.options_.watch) group_.options_.watch->entered(purpose_, sequence_);
      group_.guarded(purpose_, sequence_, [this] { work_->wait(); });
      if (group_.options_.watch) group_.options_.watch->left();
    }

   private:
    C10dGroup& group_;
    WorkPtr work_;
    const char* purpose_;
    int64_t sequence_;
  };

  StorePtr prefixed(const std::string& name) const {
    return c10::make_intrusive<c10d::PrefixStore>(name, store_);
  }

  /// Groups that are split off need not try again what fails here.
  BackendPtr make_host_backend() {
    if (options_.cpu_backend == CpuBackend::kGloo) {
      return make_gloo_backend(prefixed("gloo"), options_);
    }
    SharedMemoryAttempt attempt;
    try {
      attempt = make_shared_memory_backend(prefixed("shared memory"), options_);
    } catch (const std::exception& error) {
      throw_unconnected(options_, c10d_message(error.what()));
    }
    if (attempt.backend) return attempt.backend;
    if (options_.cpu_backend == CpuBackend::kSharedMemory) {
      wait_for_readers();
      refuse_shared_memory(attempt.problem);
    }
    if (!attempt.problem.empty()) {
      if (options_.global_rank == 0) {
        warn(
            accel::text("the ranks communicate by Gloo, which is slower: they cannot share memory "
                        "({})",
                        attempt.problem));
      }
      options_.cpu_backend = CpuBackend::kGloo;
    }
    return make_gloo_backend(prefixed("gloo"), options_);
  }

  /// The store ends with rank 0, which waits until the others have read why all refuse.
  void wait_for_readers() const {
    constexpr auto kReaders = "readers", kAllRead = "all have read";
    try {
      if (store_->add(kReaders, 1) == options_.world) store_->set(kAllRead, "yes");
      store_->wait({kAllRead}, kPatience);
    } catch (const std::exception&) {
      // A rank ended without reading, or rank 0 is gone: this rank knows its own reason.
    }
  }

  [[noreturn]] static void refuse_shared_memory(const std::string& problem) {
    throw Error(ExitCode::kRecipe,
                accel::text("'accelerator.cpu_backend' is 'shared_memory', but the ranks {}",
                            problem.empty() ? "of a group are on several machines"
                                            : accel::text("cannot share memory ({})", problem)),
                "set accelerator.cpu_backend=gloo");
  }

  c10d::Backend& backend_of(const at::Tensor& tensor) const {
    if (tensor.is_cpu()) return *host_;
    if (!device_) throw std::logic_error("the group has no backend for " + tensor.device().str());
    return *device_;
  }

  /// The ranks' GPUs connect to each other, which may hang as a collective does.
  void connect_devices() {
    if (options_.hang_watch) {
      log_ = options_.hang_watch->add_group({options_.name, axes(), options_.members});
    }
    logged({.operation = "connection", .purpose = "devices", .on_device = true}, 0,
           [&]() -> WorkPtr {
             device_ = options_.device_backend(prefixed("device"), options_);
             return {};
           });
  }

  /// "" when they are unknown.
  std::string axes() const {
    const std::vector<int64_t>& members = options_.members;
    if (!options_.axes || members.size() < 2) return "";
    const int64_t stride = members[1] - members[0];
    for (size_t i = 1; i < members.size(); ++i) {
      if (members[i] - members[i - 1] != stride) return "";
    }
    return options_.axes({world(), stride});
  }

  static CollectiveCall call_of(const char* operation, const char* purpose,
                                const at::Tensor& tensor) {
    return {.operation = operation,
            .purpose = purpose,
            .bytes = static_cast<int64_t>(tensor.nbytes()),
            .on_device = !tensor.is_cpu()};
  }

  /// The work that `start` returns.
  template <class Start>
  WorkPtr logged(const CollectiveCall& call, int64_t sequence, Start start) {
    if (!log_) return start();
    log_->called(call, sequence, current_step());
    try {
      WorkPtr work = start();
      log_->started(work && options_.device_work && call.on_device ? options_.device_work(work)
                                                                   : work);
      return work;
    } catch (...) {
      log_->started({});
      throw;
    }
  }

  template <class Start>
  std::unique_ptr<Pending> begin(const CollectiveCall& call, Start start) {
    RECORD_FUNCTION(std::string("start ") + call.purpose, {});
    const int64_t sequence = ++sequence_;
    if (options_.watch) options_.watch->entered(call.purpose, sequence);
    WorkPtr work;
    guarded(call.purpose, sequence, [&] { work = logged(call, sequence, start); });
    if (options_.watch) options_.watch->left();
    return std::make_unique<InFlight>(*this, std::move(work), call.purpose, sequence);
  }

  /// Runs a call of a collective; converts c10d's exceptions to Error.
  template <class Part>
  void guarded(const char* purpose, int64_t sequence, Part part) {
    try {
      part();
    } catch (const std::exception& error) {
      throw_named(error, place_text(purpose, sequence));
    }
  }

  /// 0: none
  int64_t current_step() const { return options_.step ? options_.step() : 0; }

  /// "at step 3, in collective 41 'gradients'"
  std::string place_text(const char* purpose, int64_t sequence) const {
    const int64_t step = current_step();
    const std::string at = step > 0 ? accel::text("at step {}, ", step) : "";
    return at + accel::text("in collective {} '{}'", sequence, purpose);
  }

  [[noreturn]] void throw_named(const std::exception& error, const std::string& place) const {
    const std::string why = error.what();
    const LostRanks* ranks = options_.lost_ranks.get();
    const std::string self =
        ranks ? ranks->name(options_.global_rank) : accel::text("rank {}", options_.global_rank);
    if (const auto* lost = dynamic_cast<const LostPeer*>(&error)) {
      const int64_t peer = options_.members[static_cast<size_t>(lost->rank)];
      throw_lost(self, ranks ? ranks->lost(peer, options_.members) : accel::text("rank {}", peer),
                 place);
    }
    if (tells_of_time(why)) {
      const std::string who = ranks ? ranks->timed_out(options_.members) : "other ranks";
      throw Error(
          ExitCode::kTimeout,
          accel::text("{} waited longer than 'accelerator.timeout' for {} {}", self, who, place),
          "check that the others run and that their network works, or raise the timeout");
    }
    if (tells_of_loss(why)) {
      throw_lost(self, ranks ? ranks->broken(why, options_.members) : "another rank", place);
    }
    throw Error(ExitCode::kRank, accel::text("{} failed {}: {}", self, place, c10d_message(why)),
                c10d_hint(why));
  }

  [[noreturn]] static void throw_lost(const std::string& self, const std::string& who,
                                      const std::string& place) {
    throw Error(ExitCode::kRank, accel::text("{} lost {} {}", self, who, place),
                "the log of the lost rank has the cause");
  }

  GroupOptions options_;
  StorePtr store_;
  BackendPtr host_;
  BackendPtr device_;                        ///< null on the CPU
  std::shared_ptr<CollectiveLog> log_ = {};  ///< null: not watched
  int64_t sequence_ = 0;
  int64_t splits_ = 0;
};

}  // namespace

std::string c10d_hint(const std::string& text) {
  return text.find("NCCL") != text.npos
             ? "set NCCL_DEBUG=INFO in the environment for details"
             : "add accelerator.debug=collectives to compare the calls of the ranks";
}

std::string c10d_message(const std::string& text) {
  if (const size_t nccl = text.find(kNcclError); nccl != text.npos) {
    return nccl_message(text.substr(nccl));
  }
  const std::string line = first_line(text);
  const size_t place = line.starts_with('[') ? line.find("] ") : line.npos;
  return place == line.npos ? line : line.substr(place + 2);
}

std::unique_ptr<Communicator> make_c10d_group(const StorePtr& store, const GroupOptions& options) {
  return std::make_unique<C10dGroup>(store, options);
}

}  // namespace accel
