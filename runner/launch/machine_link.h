// Connections between the launchers of several machines: lines of text, after both ends have
// proved that they know the job's token.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/owned_fd.h"
#include "runner/launch/machine_group.h"

namespace accel {

/// A connected socket that sends and receives lines without blocking.
class LineSocket {
 public:
  explicit LineSocket(OwnedFd fd);

  int fd() const { return fd_.get(); }
  bool open() const { return static_cast<bool>(fd_); }
  void send(const std::string& line);
  /// The complete lines that have arrived. Closes at the peer's end, and after 64 KiB without one.
  std::vector<std::string> receive();
  void close() { fd_.reset(); }

 private:
  void flush();

  OwnedFd fd_;
  std::string in_, out_;
};

/// The proof of the token for a nonce, by an end of the connection: "main" or "machine".
std::string token_proof(const std::string& token, const std::string& nonce, const char* end);

/// 128 random bits in hex digits. Throws Error.
std::string random_token();

struct MachinesRequest {
  MachineGroupRules rules;
  int64_t machine_rank = 0;
  std::string address;  ///< of machine 0, the same on all
  int64_t port = 0;
  std::string token;  ///< empty: none; must be the same on all
  int64_t beat_ms = 200;
  int64_t join_timeout_seconds = 120;
};

/// The launchers of a run as one of them sees them. On machine 0 it decides for all.
class Machines {
 public:
  /// Machine 0 listens; the others connect, for at most the join timeout. `stop_fd` ends the wait:
  /// see connected(). Throws Error.
  Machines(const MachinesRequest& request, int stop_fd);

  /// False when the wait was stopped.
  bool connected() const { return request_.machine_rank == 0 || main_; }
  void watch(std::vector<pollfd>& to) const;
  /// Receives and returns the orders for this machine. Throws Error when machine 0 is lost for
  /// good.
  std::vector<MachineOrder> step(int64_t now_ms);
  void ended(const MachineEnd& end, int64_t now_ms);
  /// Ends the run on all machines.
  void quit(int code, int64_t now_ms);
  /// Machine 0: the port of the store of a generation, for the others.
  void announce_port(int64_t port);
  /// The others: the port of the last kStart.
  int64_t store_port() const { return store_port_; }
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  struct Peer {
    explicit Peer(OwnedFd fd) : socket(std::move(fd)) {}
    LineSocket socket;
    std::string nonce;
    int64_t machine = -1;  ///< -1: not authenticated
    int64_t heard_ms = 0;
  };

  void accept_peers(int64_t now_ms);
  void hear(Peer& peer, int64_t now_ms);
  void admit(Peer& peer, const std::string& line, int64_t now_ms);
  void obey(Peer& peer, const std::string& line, int64_t now_ms);
  void distribute();
  void beat(int64_t now_ms);
  void drop_silent(int64_t now_ms);
  std::vector<MachineOrder> step_as_main(int64_t now_ms);
  std::vector<MachineOrder> step_as_other(int64_t now_ms);
  void connect(int stop_fd);
  void lose_main(std::vector<MachineOrder>& orders);

  MachinesRequest request_;
  MachineGroup group_;
  OwnedFd listener_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::unique_ptr<Peer> main_;
  std::vector<MachineOrder> own_, held_;
  std::vector<std::string> notes_;
  int64_t store_port_ = 0, next_beat_ms_ = 0;
  int stop_fd_ = -1;
  bool runs_ = false;
};

}  // namespace accel
