// A folder that one tracker of this process writes to.
#pragma once

#include <string>

namespace accel {

/// `folder`, or the first of `folder`-2, `folder`-3, ... that no other one of these holds. Trackers
/// made in the same order in the next life of a run find their folders again.
class OwnFolder {
 public:
  /// Makes the folder. Throws IoError.
  explicit OwnFolder(const std::string& folder);
  ~OwnFolder();
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int lock_ = -1;
};

}  // namespace accel
