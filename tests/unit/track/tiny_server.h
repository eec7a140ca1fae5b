// A web server on the loopback device that answers one connection after the other.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace accel {

class TinyServer {
 public:
  /// Answers each connection with the next of `replies`, "" closing it unanswered, then stops.
  explicit TinyServer(std::vector<std::string> replies) : replies_(std::move(replies)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    ::listen(listener_, 8);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }

  ~TinyServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  /// Waits until all replies were given.
  const std::vector<std::string>& requests() {
    while (!finished_) std::this_thread::yield();
    return requests_;
  }

 private:
  void run() {
    for (const std::string& reply : replies_) {
      const int peer = ::accept(listener_, nullptr, nullptr);
      if (peer < 0) break;
      requests_.push_back(read_request(peer));
      [[maybe_unused]] const ssize_t sent = ::write(peer, reply.data(), reply.size());
      ::close(peer);
    }
    finished_ = true;
  }

  static std::string read_request(int peer) {
    std::string text;
    char bytes[4096];
    for (;;) {
      const ssize_t count = ::read(peer, bytes, sizeof bytes);
      if (count <= 0) return text;
      text.append(bytes, static_cast<size_t>(count));
      const size_t head = text.find("\r\n\r\n");
      if (head == std::string::npos) continue;
      const size_t length = text.find("Content-Length: ");
      const size_t wanted = length > head ? 0 : std::stoul(text.substr(length + 16));
      if (text.size() >= head + 4 + wanted) return text;
    }
  }

  std::vector<std::string> replies_;
  std::vector<std::string> requests_;
  std::atomic<bool> finished_ = false;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace accel
