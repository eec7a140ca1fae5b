#include "runner/dist/join.h"

#include <arpa/inet.h>
#include <c10/util/Logging.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "core/error.h"
#include "core/host_name.h"
#include "runner/dist/checked_group.h"

namespace accel {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr auto kTellEvery = std::chrono::seconds(5);
/// Where a rank writes why the group cannot come about.
constexpr auto kProblem = "problem";
constexpr auto kComplete = "complete";
// How many ranks have come, and how many have given up.
constexpr auto kJoined = "joined";
constexpr auto kLeft = "left";
constexpr auto kPatience = std::chrono::seconds(2);
constexpr Clock::duration kLonger = std::chrono::seconds(3);

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

/// The address of this machine that packets to `address` leave from.
std::string own_address(const std::string& address, int port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    throw Error(ExitCode::kRank, "the address '" + address + "' of rank 0 cannot be resolved");
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
  if (!known) throw Error(ExitCode::kRank, "there is no way from here to '" + address + "'");
  return text;
}

StorePtr open_store(const JoinRequest& request) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(request.port);
  options.isServer = request.rank == 0 && !request.store_is_there;
  options.waitWorkers = false;
  options.timeout = milliseconds(request.join_timeout);
  if (options.isServer) options.masterListenFd = request.listen_fd;
  const std::string place = request.address + ":" + std::to_string(request.port);
  try {
    return c10::make_intrusive<c10d::TCPStore>(request.address, options);
  } catch (const std::exception& error) {
    const std::string why = std::string(error.what());
    if (options.isServer) {
      throw Error(ExitCode::kRank,
                  "rank 0 cannot listen on " + place + ": " + why.substr(0, why.find('\n')),
                  "give another 'accelerator.main_process_port'");
    }
    throw Error(ExitCode::kTimeout,
                "rank " + std::to_string(request.rank) + " cannot reach rank 0 at " + place,
                "start rank 0's machine, or look at the address, the port and the firewall");
  }
}

/// One rank's meeting with the others.
class Meeting {
 public:
  Meeting(const JoinRequest& request, StorePtr store)
      : request_(request), store_(std::move(store)), start_(Clock::now()) {}

  /// Returns when all ranks have come and agree.
  void hold() {
    try {
      claim();
      if (request_.rank == 0) {
        wait_for_all();
        store_->set(kComplete, "yes");
      } else {
        compare_with_main();
        store_->set(agreed(request_.rank), "yes");
        wait_for(kComplete, "rank 0 waits for other ranks");
      }
    } catch (const Error&) {
      leave();
      throw;
    }
  }

 private:
  static std::string key_of(int64_t rank) { return "rank/" + std::to_string(rank); }
  static std::string agreed(int64_t rank) { return "agreed/" + std::to_string(rank); }

  /// The store goes with rank 0, which therefore waits until the others have read what is wrong.
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

  /// Tells the others why this rank gives up, and does.
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
              "two processes claim to be rank " + std::to_string(request_.rank) + ": " + self() +
                  ", and " + other.at("self").get<std::string>(),
              "give each machine its own 'accelerator.machine_rank'");
    }
    store_->set(key, Json{{"self", self()},
                          {"world", request_.world},
                          {"recipe", request_.recipe},
                          {"build", request_.build}}
                         .dump());
  }

  void compare_with_main() {
    wait_for(key_of(0), "rank 0 is waited for");
    const Json main = Json::parse(store_->get_to_str(key_of(0)));
    const std::string mine = "rank " + std::to_string(request_.rank) + " (" + self() + ")";
    const std::string theirs = "rank 0 (" + main.at("self").get<std::string>() + ")";
    if (main.at("world") != request_.world) {
      give_up(ExitCode::kRecipe,
              mine + " wants " + std::to_string(request_.world) + " ranks, " + theirs + " wants " +
                  std::to_string(main.at("world").get<int64_t>()),
              "give all machines the same 'num_processes' and 'num_machines'");
    }
    if (main.at("build") != request_.build) {
      give_up(ExitCode::kRecipe,
              mine + " runs " + request_.build + ", " + theirs + " runs " +
                  main.at("build").get<std::string>(),
              "install the same accel-run on all machines");
    }
    if (main.at("recipe") != request_.recipe) {
      give_up(ExitCode::kRecipe, mine + " has another recipe than " + theirs,
              "start all machines with the same recipe and the same overrides");
    }
  }

  /// Rank 0's part.
  void wait_for_all() {
    std::vector<int64_t> missing;
    for (int64_t rank = 1; rank < request_.world; ++rank) missing.push_back(rank);
    while (true) {
      std::erase_if(missing, [this](int64_t rank) { return store_->check({agreed(rank)}); });
      check_problem();
      if (missing.empty()) return;
      std::string text = missing.size() == 1 ? "rank" : "ranks";
      for (const int64_t rank : missing) text += " " + std::to_string(rank);
      pause("waiting for " + text, text + " did not join");
    }
  }

  void wait_for(const std::string& key, const std::string& why) {
    while (!store_->check({key})) {
      check_problem();
      pause(why, "the group did not come about: " + why);
    }
  }

  /// Sleeps a little; says every few seconds what is waited for; ends the wait with `verdict`.
  void pause(const std::string& waiting, const std::string& verdict) {
    const auto waited = Clock::now() - start_;
    // Rank 0 knows best who is missing: the others give it the time to say so.
    const auto longer = request_.rank == 0 ? Clock::duration(0) : kLonger;
    if (waited > milliseconds(request_.join_timeout) + longer) {
      give_up(ExitCode::kTimeout,
              verdict + " within " + std::to_string(std::lround(request_.join_timeout)) + " s",
              "look at the machines that did not start, or raise 'accelerator.join_timeout'");
    }
    if (waited >= kTellEvery * (told_ + 1)) {
      ++told_;
      if (request_.tell) request_.tell(waiting + " at " + request_.address);
    }
    std::this_thread::sleep_for(kPoll);
  }

  const JoinRequest& request_;
  StorePtr store_;
  Clock::time_point start_;
  int told_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> join(const JoinRequest& request) {
  // Of what c10d prints by itself, such as that an address has no name, only errors are of use.
  FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, 2);
  const StorePtr base = open_store(request);
  const auto store = [&](const char* part) {
    return c10::make_intrusive<c10d::PrefixStore>("accel-run/" + request.group + "/" + part, base);
  };
  try {
    Meeting(request, store("meeting")).hold();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string why = error.what();
    throw Error(ExitCode::kRank,
                "rank " + std::to_string(request.rank) +
                    " lost rank 0 before training: " + why.substr(0, why.find('\n')));
  }
  GroupOptions options;
  options.rank = request.rank;
  options.world = request.world;
  options.timeout = request.timeout;
  options.watch = request.watch;
  const std::string host = own_address(request.address, request.port);
  BackendPtr gloo = make_gloo_backend(store("gloo"), options, host);
  BackendPtr device;
  if (request.device_backend) device = request.device_backend(store("device"), options);
  std::unique_ptr<Communicator> group =
      make_c10d_group(options, std::move(gloo), std::move(device));
  return request.checked ? make_checked(std::move(group)) : std::move(group);
}

}  // namespace accel
