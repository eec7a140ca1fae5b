#include "parallel/join.h"

#include <arpa/inet.h>
#include <c10/util/Logging.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "core/base/digest.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/call_within.h"
#include "parallel/failure/hang_watch.h"
#include "parallel/failure/lost_ranks.h"
#include "parallel/rendezvous/rendezvous.h"

namespace accel {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr auto kInterfaceVariable = "GLOO_SOCKET_IFNAME";  // PyTorch's
constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr auto kReportEvery = std::chrono::seconds(5);
/// Key of the error that ends the join.
constexpr auto kProblem = "problem";
constexpr auto kComplete = "complete";
// Number of ranks that have joined, and that have given up.
constexpr auto kJoined = "joined";
constexpr auto kLeft = "left";
constexpr auto kPatience = std::chrono::seconds(2);
constexpr Clock::duration kLonger = std::chrono::seconds(3);
constexpr auto kLeastAnswer = std::chrono::milliseconds(1000);

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

bool serves_store(const JoinRequest& request) {
  return request.rank == 0 && !request.external_store;
}

std::string place_of(const JoinRequest& request) {
  return request.address + ":" + std::to_string(request.port);
}

/// The source address of this machine for packets to `address`.
std::string own_address(const std::string& address, int port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    throw Error(ExitCode::kRank, accel::text("cannot resolve the address '{}' of rank 0", address));
  }
  char text[NI_MAXHOST] = {};
  const int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own = {};
  socklen_t size = sizeof own;
  const bool known = fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
                     getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text,
                                 nullptr, 0, NI_NUMERICHOST) == 0;
  if (fd >= 0) close(fd);
  freeaddrinfo(found);
  if (!known) throw Error(ExitCode::kRank, accel::text("no route to '{}'", address));
  return text;
}

StorePtr connect_store(const JoinRequest& request) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(request.port);
  options.isServer = serves_store(request);
  options.waitWorkers = false;
  options.timeout = milliseconds(request.join_timeout);
  if (options.isServer) options.masterListenFd = request.listen_fd;
  return c10::make_intrusive<c10d::TCPStore>(request.address, options);
}

StorePtr serve_store(const JoinRequest& request) try {
  return connect_store(request);
} catch (const std::exception& error) {
  const std::string why = std::string(error.what());
  throw Error(
      ExitCode::kRank,
      text("rank 0 cannot listen on {}: {}", place_of(request), why.substr(0, why.find('\n'))),
      "set another 'accelerator.main_process_port'");
}

[[noreturn]] void refuse_stranger(const JoinRequest& request) {
  throw Error(ExitCode::kTimeout,
              text("rank {} is connected to {}, which does not answer as rank 0 of accel-run does",
                   request.rank, place_of(request)),
              "if another program listens there, give all machines another "
              "'accelerator.main_process_port'; else start rank 0 again");
}

/// Waits for a listener itself: c10d's own wait takes up to three times its timeout and loses the
/// reason.
StorePtr open_store(const JoinRequest& request) {
  if (serves_store(request)) return serve_store(request);
  const auto start = Clock::now();
  const auto seconds = static_cast<int64_t>(std::ceil(request.join_timeout));
  wait_for_main_machine({request.address, request.port, OwnedFd()}, seconds);
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  // A late listener gets time for an answer.
  const auto left = std::max(milliseconds(request.join_timeout) - waited, kLeastAnswer);
  try {
    if (auto store = call_within(left, [request] { return connect_store(request); })) return *store;
  } catch (const std::exception&) {
    // Another protocol.
  }
  refuse_stranger(request);
}

/// The rendezvous of one rank with the others.
class Joining {
 public:
  Joining(JoinRequest request, StorePtr store)
      : request_(std::move(request)), store_(std::move(store)), start_(Clock::now()) {}

  /// Returns when all ranks have joined and agree.
  void run() {
    try {
      claim();
      if (request_.rank == 0) {
        wait_for_all();
        store_->set(kComplete, "yes");
      } else {
        compare_with_main();
        store_->set(agreed(request_.rank), "yes");
        wait_for(kComplete, "rank 0 is waiting for other ranks");
      }
    } catch (const Error&) {
      leave();
      throw;
    }
  }

 private:
  static std::string key_of(int64_t rank) { return "rank/" + std::to_string(rank); }
  static std::string agreed(int64_t rank) { return "agreed/" + std::to_string(rank); }

  /// The store ends with rank 0, which waits until the others have read the error.
  void leave() {
    const int64_t left = store_->add(kLeft, 1);
    if (request_.rank != 0) return;
    const auto patience = Clock::now() + kPatience;
    for (int64_t gone = left; gone < store_->add(kJoined, 0) && Clock::now() < patience;
         gone = store_->add(kLeft, 0)) {
      std::this_thread::sleep_for(kPoll);
    }
  }

  std::string self() const { return host_name() + ", process " + std::to_string(getpid()); }

  /// Publishes the error to the other ranks and throws it.
  [[noreturn]] void give_up(ExitCode code, const std::string& problem, const std::string& hint) {
    store_->set(kProblem, Json{{"code", code}, {"text", problem}, {"hint", hint}}.dump());
    throw Error(code, problem, hint);
  }

  void check_problem() {
    if (!store_->check({kProblem})) return;
    const Json problem = Json::parse(store_->get_to_str(kProblem));
    throw Error(problem.at("code").get<ExitCode>(), problem.at("text").get<std::string>(),
                problem.at("hint").get<std::string>());
  }

  void claim() {
    store_->add(kJoined, 1);
    const std::string key = key_of(request_.rank);
    if (store_->add("claims/" + std::to_string(request_.rank), 1) > 1) {
      store_->wait({key}, std::chrono::seconds(5));
      const Json other = Json::parse(store_->get_to_str(key));
      give_up(ExitCode::kRecipe,
              text("two processes have rank {}: {}, and {}", request_.rank, self(),
                   other.at("self").get<std::string>()),
              "set another 'accelerator.machine_rank' on each machine");
    }
    store_->set(key, Json{{"self", self()},
                          {"world", request_.world},
                          {"recipe", request_.recipe},
                          {"build", request_.build}}
                         .dump());
  }

  void compare_with_main() {
    wait_for(key_of(0), "waiting for rank 0");
    const Json main = Json::parse(store_->get_to_str(key_of(0)));
    const std::string mine = text("rank {} ({})", request_.rank, self());
    const std::string theirs = text("rank 0 ({})", main.at("self").get<std::string>());
    if (main.at("world") != request_.world) {
      give_up(ExitCode::kRecipe,
              text("{} is configured for {} ranks, {} for {}", mine, request_.world, theirs,
                   main.at("world").get<int64_t>()),
              "set the same 'num_processes' and 'num_machines' on all machines");
    }
    if (main.at("build") != request_.build) {
      give_up(ExitCode::kRecipe,
              text("{} runs {}, {} runs {}", mine, request_.build, theirs,
                   main.at("build").get<std::string>()),
              "install the same accel-run on all machines");
    }
    if (main.at("recipe") != request_.recipe) {
      give_up(ExitCode::kRecipe, text("{} has another recipe than {}", mine, theirs),
              "start all machines with the same recipe and the same overrides");
    }
  }

  /// Rank 0: waits for the agreement of all ranks.
  void wait_for_all() {
    std::vector<int64_t> missing;
    for (int64_t rank = 1; rank < request_.world; ++rank) missing.push_back(rank);
    while (true) {
      std::erase_if(missing, [this](int64_t rank) { return store_->check({agreed(rank)}); });
      check_problem();
      if (missing.empty()) return;
      std::string ranks = missing.size() == 1 ? "rank" : "ranks";
      for (const int64_t rank : missing) ranks += " " + std::to_string(rank);
      pause("waiting for " + ranks, ranks + " did not join");
    }
  }

  void wait_for(const std::string& key, const std::string& why) {
    while (!store_->check({key})) {
      check_problem();
      pause(why, "no group of ranks: " + why);
    }
  }

  /// Sleeps for a moment; reports `waiting` every few seconds; fails with `verdict` at the timeout.
  void pause(const std::string& waiting, const std::string& verdict) {
    const auto waited = Clock::now() - start_;
    // The others wait longer than rank 0, which knows the missing ranks.
    const auto longer = request_.rank == 0 ? Clock::duration(0) : kLonger;
    if (waited > milliseconds(request_.join_timeout) + longer) {
      give_up(ExitCode::kTimeout,
              text("{} within {} s", verdict, std::lround(request_.join_timeout)),
              "check the machines that did not start, or raise 'accelerator.join_timeout'");
    }
    if (waited >= kReportEvery * (reports_ + 1)) {
      ++reports_;
      if (request_.report_waiting) request_.report_waiting(waiting + " at " + request_.address);
    }
    std::this_thread::sleep_for(kPoll);
  }

  const JoinRequest request_;
  StorePtr store_;
  Clock::time_point start_;
  int reports_ = 0;
};

}  // namespace

JoinRequest join_request(const RankInfo& rank, const std::optional<LauncherChannel>& channel,
                         const EnvironmentLookup& lookup) {
  JoinRequest request;
  request.rank = rank.rank;
  request.world = rank.world;
  request.address = rank.main_address;
  request.port = static_cast<int>(rank.main_port);
  request.interface = lookup(kInterfaceVariable).value_or("");
  request.machine = text("{}, rank {}", host_name(), rank.rank - rank.local_rank);
  // A process without the token finds none of the group's keys.
  std::string secret;
  if (const auto token = lookup(kJobTokenVariable)) {
    secret = digest_of(Digest::Kind::kSha256, "group:" + *token);
  }
  request.group = secret;
  if (channel) {
    request.listen_fd = channel->store_fd;
    return request;
  }
  // torchrun serves the store itself, to each restart of the ranks in turn.
  request.external_store = lookup("TORCHELASTIC_USE_AGENT_STORE") == "True";
  request.group = lookup("TORCHELASTIC_RESTART_COUNT").value_or("") + secret;
  if (!request.external_store && request.rank == 0) {
    Rendezvous point = rendezvous_as_main_machine(request.address, request.port);
    request.listen_fd = point.listener.release();
  }
  return request;
}

namespace {

/// Meets the other ranks in the store.
void meet(const JoinRequest& request, const StorePtr& store, const RankHost& own,
          const std::shared_ptr<LostRanks>& ranks) {
  const auto limit = milliseconds(request.join_timeout) +
                     std::chrono::duration_cast<std::chrono::milliseconds>(kLonger + kPatience);
  try {
    const auto met = call_within(limit, [request, store, own, ranks] {
      ranks->publish(own);
      Joining(request, store).run();
      ranks->learn_main_host();
      return true;
    });
    if (!met) refuse_stranger(request);
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    throw Error(ExitCode::kRank, text("rank {} lost rank 0 before training", request.rank),
                "see the log of rank 0");
  }
}

}  // namespace

std::unique_ptr<Communicator> join(const JoinRequest& request) {
  // c10d's errors are reported once, in this program's form; after a failure also those of a call
  // that was left to its thread. Warnings, such as on addresses without a name, stay silent.
  constexpr int kError = 2, kFatal = 3;
  const int level = FLAGS_caffe2_log_level;
  FLAGS_caffe2_log_level = std::max(level, kFatal);
  const StorePtr base = open_store(request);
  const auto store = [&](const char* name) {
    return c10::make_intrusive<c10d::PrefixStore>("accel-run/" + request.group + "/" + name, base);
  };
  GroupOptions options;
  options.rank = request.rank;
  options.world = request.world;
  options.global_rank = request.rank;
  options.timeout = request.timeout;
  options.watch = request.watch;
  options.step = request.step;
  options.host = request.interface.empty() ? own_address(request.address, request.port)
                                           : interface_address(request.interface);
  options.machine = request.machine;
  options.cpu_backend = request.cpu_backend;
  options.device_backend = request.device_backend;
  options.device_work = request.device_work;
  options.axes = request.axes;
  const auto lost = std::make_shared<LostRanks>(store("ranks"), request.rank, request.world,
                                                !request.external_store, request.places);
  meet(request, store("meeting"), {host_name(), options.host}, lost);
  options.lost_ranks = lost;
  if (request.device_backend && request.on_hang && request.world > 1) {
    options.hang_watch = std::make_shared<HangWatch>(HangWatch::Options{
        request.device_timeout,
        request.on_hang,
        {request.rank, request.world, store("ranks")->clone(), !request.external_store, lost}});
  }
  std::unique_ptr<Communicator> group = make_c10d_group(store("group"), options);
  FLAGS_caffe2_log_level = std::max(level, kError);
  return request.checked ? make_checked(std::move(group)) : std::move(group);
}

}  // namespace accel
