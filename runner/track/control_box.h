// How someone outside asks something of a run: files in `control/` of its folder.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace accel {

/// `ID.order` holds what is asked, a line for each order, of which all are done or none; the run
/// removes it and writes `ID.done` or `ID.refused` with what there is to say. While it takes orders
/// there is a file `open`. Only the run's owner may enter.
struct ControlOrder {
  std::string id;
  std::string text;
};

/// The run's side.
class ControlBox {
 public:
  /// Makes the folder empty: orders to a process that is gone are nobody's. Throws IoError.
  explicit ControlBox(const std::string& run_dir);
  /// Refuses what was not taken and lets nothing more in.
  ~ControlBox();
  ControlBox(const ControlBox&) = delete;
  ControlBox& operator=(const ControlBox&) = delete;

  /// Whether there may be an order: looks at the disk at most five times a second.
  bool waiting();
  /// The oldest order; nothing when there is none. One that cannot be read is refused.
  std::optional<ControlOrder> take();
  /// A disk that does not take the answer is a warning.
  void answer(const ControlOrder& order, bool done, const std::string& text) const;

 private:
  std::vector<std::string> orders() const;

  std::string folder_;
  std::chrono::steady_clock::time_point looked_;
  bool seen_ = false;  ///< an order, when it was last looked at
};

struct ControlAnswer {
  bool done = false;
  /// A line of each order on what was done; or why not and, on a second line, what to do.
  std::string text;
};

/// Puts an order into the folder of a run and returns its id. Throws Error when the run takes none,
/// and IoError.
std::string post_order(const std::string& run_dir, const std::string& text);

/// What the run said of it, once; nothing yet before that.
std::optional<ControlAnswer> take_answer(const std::string& run_dir, const std::string& id);

/// False: the run has it already.
bool withdraw_order(const std::string& run_dir, const std::string& id);

}  // namespace accel
