// Names the ranks that a failed collective has lost.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace c10d {
class Store;
}

namespace accel {

/// The host of a rank, as it publishes it in the store.
struct RankHost {
  std::string host;     ///< host name
  std::string address;  ///< for the other ranks, from GroupOptions::host
};

/// Asks the other ranks through the store, for a few seconds at most.
class LostRanks {
 public:
  /// `store` holds the hosts of all ranks; `rank` and `world` are of the group of all ranks.
  /// `of_rank_0`: rank 0 serves the store. `places`: see JoinRequest.
  LostRanks(c10::intrusive_ptr<c10d::Store> store, int64_t rank, int64_t world, bool of_rank_0,
            std::vector<std::string> places);

  /// "rank 3", or with its place "rank 3 (pp 1, tp 1)".
  std::string name(int64_t rank) const;
  /// "rank 3 (pp 1, tp 1) on host 'b'". `store`: as in the constructor, by any connection.
  std::string name_with_host(c10d::Store& store, int64_t rank) const;

  /// Publishes the host of this rank. Before the ranks meet.
  void publish(const RankHost& own) const;
  /// Reads the host of rank 0, which takes the store with it when it is lost. After the ranks met.
  void learn_main_host();

  /// For a broken connection: "rank 1 on host 'b'", or "another rank". `why`: c10d's message, which
  /// has the address of the peer; `members`: the ranks of the group. The rank that notices first
  /// names the lost one for all: the others would name each other when they end. A rank that serves
  /// the store returns when the other members have asked, or after two seconds.
  std::string broken(const std::string& why, const std::vector<int64_t>& members) const;

  /// The same when the lost rank is known.
  std::string lost(int64_t rank, const std::vector<int64_t>& members) const;

  /// For a timeout: the members whose collective has not timed out too, or "other ranks".
  std::string timed_out(const std::vector<int64_t>& members) const;

 private:
  /// What the first rank that notices has set; else `find` of the store, which is set.
  std::string agree(const std::function<std::string(c10d::Store&)>& find, int64_t readers,
                    const std::string& otherwise) const;
  std::string unreachable(const std::string& otherwise) const;
  void await_readers(int64_t count) const;

  c10::intrusive_ptr<c10d::Store> store_;
  int64_t rank_;
  int64_t world_;
  bool of_rank_0_;
  std::vector<std::string> places_;
  std::string main_host_ = {};
};

}  // namespace accel
