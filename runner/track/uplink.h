// Trackers that talk to a server: what they ask of the thread that sends for all of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace accel {

struct HttpRequest {
  std::string method = "POST";
  std::string url;
  std::vector<std::string> headers;  ///< "Content-Type: application/json"
  std::string body;
};

struct HttpReply {
  int status = 0;  ///< 0: no answer, see `error`
  std::string body;
  std::string error;  ///< why there is no answer

  bool good() const { return status >= 200 && status < 300; }
  /// The same request may succeed later: no answer, too many requests, a server in trouble.
  bool worth_a_retry() const {
    return status == 0 || status == 408 || status == 429 || status >= 500;
  }
};

/// The sending side of a Tracker. What is to be sent lies on the disk before pending() tells of it,
/// so that nothing is lost while a server is away. Called by the trackers' thread only.
class Uplink {
 public:
  /// What an answer means for the rest.
  struct Verdict {
    std::string warning;  ///< told once; empty: all is well
    bool stop = false;    ///< nothing more can be sent in this life of the run
  };

  virtual ~Uplink() = default;

  /// Whether it has a server at all; if not, nothing else is asked.
  virtual bool talks() const { return true; }
  virtual bool pending() const = 0;
  /// The request to make now; asked for again after an answer that is worth a retry.
  virtual HttpRequest next() = 0;
  /// Told of every answer that is not worth a retry.
  virtual Verdict replied(const HttpReply& reply) = 0;
  /// "12 entries, which are kept in 'FILE'"; empty when everything was sent.
  virtual std::string left_over() const = 0;
};

}  // namespace accel
