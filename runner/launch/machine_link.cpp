#include "runner/launch/machine_link.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "core/base/digest.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "parallel/rendezvous/rendezvous.h"

namespace accel {
namespace {

constexpr auto kGreeting = "accel-run-machines/1";
constexpr size_t kLongestInput = 64 << 10;
constexpr int64_t kLeastSilenceMs =
    10'000;  ///< of a lost peer: longer than a busy machine's pauses
constexpr int64_t kSilentBeats = 50;
constexpr int64_t kStrangerMs = 5000;  ///< for an unauthenticated connection

int64_t number_of(const std::string& word) {
  std::istringstream in(word);
  int64_t number = -1;
  in >> number;
  return number;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

void send_order(LineSocket& socket, const MachineOrder& order, int64_t port) {
  switch (order.kind) {
    case OrderKind::kStart:
      return socket.send(
          text("start {} {} {} {}", order.generation, order.machines, order.rank, port));
    case OrderKind::kStop:
      return socket.send("stop");
    case OrderKind::kSave:
      return socket.send("save");
    case OrderKind::kFinish:
      return socket.send(text("finish {}", order.code));
  }
}

}  // namespace

std::string random_token() {
  std::array<unsigned char, 16> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw Error(ExitCode::kOther, text("cannot get random numbers: {}", std::strerror(errno)));
  }
  return hex_digits(bytes);
}

std::string token_proof(const std::string& token, const std::string& nonce, const char* end) {
  // Nested, as HMAC, so that a proof cannot be extended to another nonce.
  const std::string inner = digest_of(Digest::Kind::kSha256, token + ":" + end + ":" + nonce);
  return digest_of(Digest::Kind::kSha256, token + ":" + inner);
}

LineSocket::LineSocket(OwnedFd fd) : fd_(std::move(fd)) {
  ::fcntl(fd_.get(), F_SETFL, ::fcntl(fd_.get(), F_GETFL) | O_NONBLOCK);
  const int on = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void LineSocket::send(const std::string& line) {
  out_ += line + "\n";
  flush();
}

void LineSocket::flush() {
  while (fd_ && !out_.empty()) {
    const ssize_t count = ::send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (count > 0) {
      out_.erase(0, static_cast<size_t>(count));
    } else if (errno != EINTR) {
      if (errno != EAGAIN || out_.size() > kLongestInput) fd_.reset();
      return;
    }
  }
}

std::vector<std::string> LineSocket::receive() {
  flush();
  std::vector<std::string> lines;
  char buffer[4096];
  while (fd_) {
    const ssize_t count = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) {
      fd_.reset();
      break;
    }
    in_.append(buffer, static_cast<size_t>(count));
    for (size_t end; (end = in_.find('\n')) != in_.npos; in_.erase(0, end + 1)) {
      lines.push_back(in_.substr(0, end));
    }
    if (in_.size() > kLongestInput) fd_.reset();
  }
  return lines;
}

Machines::Machines(const MachinesRequest& request, int stop_fd)
    : request_(request), group_(request.rules), stop_fd_(stop_fd) {
  if (request_.machine_rank != 0) {
    connect(stop_fd);
    return;
  }
  Rendezvous point = rendezvous_as_main_machine(request_.address, request_.port);
  listener_ = std::move(point.listener);
  ::fcntl(listener_.get(), F_SETFL, ::fcntl(listener_.get(), F_GETFL) | O_NONBLOCK);
  group_.joined(0, host_name(), 0);
}

void Machines::connect(int stop_fd) {
  Rendezvous at = {request_.address, request_.port, OwnedFd()};
  if (!wait_for_main_machine(at, request_.join_timeout_seconds, stop_fd)) return;
  OwnedFd socket = connect_to_main_machine(at);
  if (!socket) return;
  main_ = std::make_unique<Peer>(std::move(socket));
  main_->nonce = random_token();
}

void Machines::watch(std::vector<pollfd>& to) const {
  if (listener_) to.push_back({listener_.get(), POLLIN, 0});
  for (const auto& peer : peers_) {
    if (peer->socket.open()) to.push_back({peer->socket.fd(), POLLIN, 0});
  }
  if (main_ && main_->socket.open()) to.push_back({main_->socket.fd(), POLLIN, 0});
}

void Machines::accept_peers(int64_t now_ms) {
  for (;;) {
    OwnedFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) return;
    auto peer = std::make_unique<Peer>(std::move(fd));
    peer->nonce = random_token();
    peer->heard_ms = now_ms;
    peer->socket.send(std::string(kGreeting) + " " + peer->nonce);
    peers_.push_back(std::move(peer));
  }
}

/// "join RANK MOST HOST NONCE PROOF"
void Machines::admit(Peer& peer, const std::string& line, int64_t now_ms) {
  const std::vector<std::string> words = words_of(line);
  if (words.size() != 6 || words[0] != "join") return peer.socket.close();
  if (words[5] != token_proof(request_.token, peer.nonce, "machine")) {
    notes_.push_back(
        text("refused a process on '{}' that does not know the token of this job "
             "(ACCEL_RUN_JOB_TOKEN)",
             words[3]));
    peer.socket.send("refuse token");
    return peer.socket.close();
  }
  const int64_t machine = number_of(words[1]), most = number_of(words[2]);
  if (most != request_.rules.most || machine < 1 || machine >= most) {
    peer.socket.send("refuse machines");
    return peer.socket.close();
  }
  peer.socket.send("welcome " + token_proof(request_.token, words[4], "main"));
  for (const auto& other : peers_) {
    if (other->machine == machine) other->machine = -1;  // replaced by this process
  }
  peer.machine = machine;
  group_.joined(machine, words[3], now_ms);
}

void Machines::hear(Peer& peer, int64_t now_ms) {
  for (const std::string& line : peer.socket.receive()) {
    peer.heard_ms = now_ms;
    if (peer.machine < 0) {
      admit(peer, line, now_ms);
      continue;
    }
    const std::vector<std::string> words = words_of(line);
    if (words.size() == 5 && words[0] == "ended") {
      group_.ended(peer.machine,
                   {.generation = number_of(words[1]),
                    .code = static_cast<int>(number_of(words[2])),
                    .primary = words[3] == "1",
                    .first_step = number_of(words[4])},
                   now_ms);
    } else if (words.size() == 2 && words[0] == "quit") {
      group_.quit(peer.machine, static_cast<int>(number_of(words[1])));
      peer.machine = -1;
    }
  }
}

void Machines::drop_silent(int64_t now_ms) {
  const int64_t silence = std::max(kLeastSilenceMs, kSilentBeats * request_.beat_ms);
  for (const auto& peer : peers_) {
    const int64_t limit = peer->machine < 0 ? kStrangerMs : silence;
    if (now_ms - peer->heard_ms > limit) peer->socket.close();
    if (!peer->socket.open() && peer->machine >= 0) {
      group_.lost(peer->machine, now_ms);
      peer->machine = -1;
    }
  }
  std::erase_if(peers_, [](const auto& peer) { return !peer->socket.open(); });
}

void Machines::beat(int64_t now_ms) {
  if (now_ms < next_beat_ms_) return;
  next_beat_ms_ = now_ms + request_.beat_ms;
  for (const auto& peer : peers_) {
    if (peer->machine >= 0) peer->socket.send("beat");
  }
  // Before the welcome it would be taken for the join.
  if (main_ && main_->machine == 0) main_->socket.send("beat");
}

/// Own orders are kept for step(); a start waits for the port of its store.
void Machines::distribute() {
  for (const MachineOrder& order : group_.take_orders()) {
    if (order.machine == 0) {
      own_.push_back(order);
    } else if (order.kind == OrderKind::kStart) {
      held_.push_back(order);
    } else {
      for (const auto& peer : peers_) {
        if (peer->machine == order.machine) send_order(peer->socket, order, 0);
      }
    }
  }
  for (std::string& note : group_.take_notes()) notes_.push_back(std::move(note));
}

void Machines::announce_port(int64_t port) {
  for (const MachineOrder& order : std::exchange(held_, {})) {
    for (const auto& peer : peers_) {
      if (peer->machine == order.machine) send_order(peer->socket, order, port);
    }
  }
}

std::vector<MachineOrder> Machines::step_as_main(int64_t now_ms) {
  accept_peers(now_ms);
  for (const auto& peer : peers_) hear(*peer, now_ms);
  drop_silent(now_ms);
  group_.tick(now_ms);
  distribute();
  beat(now_ms);
  return std::exchange(own_, {});
}

void Machines::obey(Peer& peer, const std::string& line, int64_t now_ms) {
  peer.heard_ms = now_ms;
  const std::vector<std::string> words = words_of(line);
  if (words.empty()) return;
  if (words[0] == kGreeting && words.size() == 2) {
    peer.socket.send(text("join {} {} {} {} {}", request_.machine_rank, request_.rules.most,
                          host_name(), peer.nonce,
                          token_proof(request_.token, words[1], "machine")));
  } else if (words[0] == "refuse") {
    const bool token = words.size() == 2 && words[1] == "token";
    throw Error(ExitCode::kRecipe,
                token ? text("machine 0 at '{}' has another ACCEL_RUN_JOB_TOKEN", request_.address)
                      : text("machine 0 at '{}' has another number of machines or this rank itself",
                             request_.address),
                token ? "give all machines of the job the same token"
                      : "set the same 'num_machines', and another 'machine_rank' on each machine");
  } else if (words[0] == "welcome") {
    if (words.size() != 2 || words[1] != token_proof(request_.token, peer.nonce, "main")) {
      throw Error(ExitCode::kRecipe,
                  text("the process at '{}' port {} does not know the token of this job",
                       request_.address, request_.port),
                  "give all machines of the job the same ACCEL_RUN_JOB_TOKEN");
    }
    peer.machine = 0;
  } else if (peer.machine == 0 && words[0] == "start" && words.size() == 5) {
    store_port_ = number_of(words[4]);
    own_.push_back({.machine = request_.machine_rank,
                    .kind = OrderKind::kStart,
                    .generation = number_of(words[1]),
                    .machines = number_of(words[2]),
                    .rank = number_of(words[3]),
                    .code = 0});
    runs_ = true;
  } else if (peer.machine == 0 && words[0] == "finish" && words.size() == 2) {
    own_.push_back({.kind = OrderKind::kFinish, .code = static_cast<int>(number_of(words[1]))});
  } else if (peer.machine == 0 && (words[0] == "stop" || words[0] == "save")) {
    own_.push_back({.kind = words[0] == "stop" ? OrderKind::kStop : OrderKind::kSave});
  }
}

/// Stops the ranks. Once they have ended, step() waits for a new machine 0.
void Machines::lose_main(std::vector<MachineOrder>& orders) {
  notes_.push_back(text("machine 0 at '{}' is lost: waiting for it", request_.address));
  if (runs_) orders.push_back({.kind = OrderKind::kStop});
  main_.reset();
}

std::vector<MachineOrder> Machines::step_as_other(int64_t now_ms) {
  if (!main_ && !runs_) connect(stop_fd_);
  if (!main_) return {};
  if (main_->heard_ms == 0) main_->heard_ms = now_ms;
  for (const std::string& line : main_->socket.receive()) obey(*main_, line, now_ms);
  std::vector<MachineOrder> orders = std::exchange(own_, {});
  const bool done = std::any_of(orders.begin(), orders.end(), [](const MachineOrder& order) {
    return order.kind == OrderKind::kFinish;
  });
  if (done) return orders;
  beat(now_ms);
  const int64_t silence = std::max(kLeastSilenceMs, kSilentBeats * request_.beat_ms);
  if (now_ms - main_->heard_ms > silence) main_->socket.close();
  if (!main_->socket.open()) lose_main(orders);
  return orders;
}

std::vector<MachineOrder> Machines::step(int64_t now_ms) {
  return request_.machine_rank == 0 ? step_as_main(now_ms) : step_as_other(now_ms);
}

void Machines::ended(const MachineEnd& end, int64_t now_ms) {
  runs_ = false;
  if (request_.machine_rank == 0) {
    group_.ended(0, end, now_ms);
  } else if (main_) {
    main_->socket.send(
        text("ended {} {} {} {}", end.generation, end.code, end.primary ? 1 : 0, end.first_step));
  }
}

void Machines::quit(int code, int64_t now_ms) {
  if (request_.machine_rank == 0) {
    group_.quit(0, code);
    step_as_main(now_ms);
  } else if (main_) {
    main_->socket.send("quit " + std::to_string(code));
  }
}

}  // namespace accel
