#include "parallel/failure/lost_ranks.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "core/base/text.h"
#include "parallel/call_within.h"

namespace accel {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

/// Key of the ranks that the first rank has lost.
constexpr auto kLost = "lost";
/// Key of how many ranks have read kLost.
constexpr auto kReaders = "readers of lost";
constexpr auto kAnswer = std::chrono::seconds(2);
/// Ranks that wait for the same one time out at about the same time.
constexpr auto kRollCall = std::chrono::seconds(3);

std::string host_key(int64_t rank) {
  return "host/" + std::to_string(rank);
}

std::string timeout_key(int64_t rank) {
  return "timed out/" + std::to_string(rank);
}

RankHost host_of(c10d::Store& store, int64_t rank) {
  if (!store.check({host_key(rank)})) return {};
  const Json in = Json::parse(store.get_to_str(host_key(rank)));
  return {in.at("host").get<std::string>(), in.at("address").get<std::string>()};
}

/// The address in "Connection closed by peer [10.0.0.2]:30597"; "" without one.
std::string peer_address(const std::string& why) {
  const size_t end = why.find("]:"), start = why.rfind('[', end);
  return end == why.npos || start == why.npos ? "" : why.substr(start + 1, end - start - 1);
}

using Places = std::vector<std::string>;

/// "3 (pp 1, tp 1)"
std::string with_place(int64_t rank, const Places& places) {
  const auto index = static_cast<size_t>(rank);
  const bool has_place = index < places.size() && !places[index].empty();
  return std::to_string(rank) + (has_place ? " (" + places[index] + ")" : "");
}

std::string numbers(const std::vector<int64_t>& ranks, const Places& places) {
  std::string out;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) out += i + 1 == ranks.size() ? " and " : ", ";
    out += with_place(ranks[i], places);
  }
  return out;
}

/// "rank 1 on host 'b'", "ranks 2 and 3 on host 'b'".
std::string named(const std::vector<int64_t>& ranks, const std::string& host,
                  const Places& places) {
  const std::string who = (ranks.size() == 1 ? "rank " : "ranks ") + numbers(ranks, places);
  return host.empty() ? who : text("{} on host '{}'", who, host);
}

/// One of `ranks` is lost: the one at `address`, or one of those at it.
std::string rank_at(c10d::Store& store, const std::string& address,
                    const std::vector<int64_t>& ranks, const Places& places) {
  std::vector<int64_t> found;
  std::string host;
  for (const int64_t rank : ranks) {
    const RankHost at = host_of(store, rank);
    if (ranks.size() > 1 && at.address != address) continue;
    found.push_back(rank);
    host = at.host;
  }
  if (found.empty()) return "";
  return (found.size() > 1 ? "one of " : "") + named(found, host, places);
}

std::vector<int64_t> others(const std::vector<int64_t>& members, int64_t rank) {
  std::vector<int64_t> out;
  std::copy_if(members.begin(), members.end(), std::back_inserter(out),
               [rank](int64_t member) { return member != rank; });
  return out;
}

/// "rank 1 on host 'b', ranks 2 and 3 on host 'c'".
std::string grouped_by_host(c10d::Store& store, const std::vector<int64_t>& ranks,
                            const Places& places) {
  std::map<std::string, std::vector<int64_t>> hosts;
  for (const int64_t rank : ranks) hosts[host_of(store, rank).host].push_back(rank);
  std::string out;
  for (const auto& [host, at] : hosts) out += (out.empty() ? "" : ", ") + named(at, host, places);
  return out;
}

}  // namespace

LostRanks::LostRanks(c10::intrusive_ptr<c10d::Store> store, int64_t rank, int64_t world,
                     bool of_rank_0, std::vector<std::string> places)
    : store_(std::move(store)),
      rank_(rank),
      world_(world),
      of_rank_0_(of_rank_0),
      places_(std::move(places)) {}

std::string LostRanks::name(int64_t rank) const {
  return "rank " + with_place(rank, places_);
}

std::string LostRanks::name_with_host(c10d::Store& store, int64_t rank) const {
  return named({rank}, host_of(store, rank).host, places_);
}

void LostRanks::publish(const RankHost& own) const {
  store_->set(host_key(rank_), Json{{"host", own.host}, {"address", own.address}}.dump());
}

void LostRanks::learn_main_host() {
  main_host_ = host_of(*store_, 0).host;
}

/// The store does not answer: its process is lost.
std::string LostRanks::unreachable(const std::string& otherwise) const {
  if (of_rank_0_ && rank_ != 0) return named({0}, main_host_, places_);
  return world_ == 2 ? name(1 - rank_) : otherwise;
}

/// The store ends with this rank, and without it the others would report this rank as lost.
void LostRanks::await_readers(int64_t count) const {
  const auto end = Clock::now() + kAnswer;
  while (store_->add(kReaders, 0) < count && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::string LostRanks::agree(const std::function<std::string(c10d::Store&)>& find, int64_t readers,
                             const std::string& otherwise) const {
  const auto ask = [store = store_, find]() -> std::string {
    std::string name;
    if (store->check({kLost})) {
      name = store->get_to_str(kLost);
    } else {
      name = find(*store);
      if (!name.empty()) store->set(kLost, name);
    }
    store->add(kReaders, 1);
    return name;
  };
  try {
    const std::optional<std::string> name = call_within(kAnswer, ask);
    if (name) {
      if (of_rank_0_ && rank_ == 0) await_readers(readers);
      return name->empty() ? otherwise : *name;
    }
  } catch (const std::exception&) {
    // The connection to the store is lost too.
  }
  return unreachable(otherwise);
}

std::string LostRanks::broken(const std::string& why, const std::vector<int64_t>& members) const {
  const auto find = [address = peer_address(why), ranks = others(members, rank_), places = places_](
                        c10d::Store& store) { return rank_at(store, address, ranks, places); };
  return agree(find, static_cast<int64_t>(members.size()) - 1, "another rank");
}

std::string LostRanks::lost(int64_t rank, const std::vector<int64_t>& members) const {
  const auto find = [rank, places = places_](c10d::Store& store) {
    return named({rank}, host_of(store, rank).host, places);
  };
  return agree(find, static_cast<int64_t>(members.size()) - 1, name(rank));
}

std::string LostRanks::timed_out(const std::vector<int64_t>& members) const {
  constexpr auto kUnknown = "other ranks";
  const auto ask = [store = store_, rank = rank_, missing = others(members, rank_),
                    places = places_]() mutable -> std::string {
    store->set(timeout_key(rank), "yes");
    const auto end = Clock::now() + kRollCall;
    while (!missing.empty() && Clock::now() < end) {
      std::erase_if(missing, [&](int64_t other) { return store->check({timeout_key(other)}); });
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return grouped_by_host(*store, missing, places);
  };
  try {
    const std::optional<std::string> name = call_within(kRollCall + kAnswer, ask);
    if (name) return name->empty() ? kUnknown : *name;
  } catch (const std::exception&) {
    // The connection to the store is lost.
  }
  return unreachable(kUnknown);
}

}  // namespace accel
