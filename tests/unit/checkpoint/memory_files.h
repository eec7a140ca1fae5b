// A file system in memory that can fail or lose power at any call: the test double of Files.
#pragma once

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runner/checkpoint/files.h"

namespace accel {

/// The machine stopped. No error of ours: nothing may catch it and go on.
struct PowerLoss {};

/// Content is lost in a power loss until its file was synced. Names created, renamed or removed
/// since the last sync_dir() come back in the order they were made, up to any point: as a
/// journalling file system replays them.
class MemoryFiles final : public Files {
 public:
  int64_t free_bytes = int64_t{1} << 40;

  /// The n-th call from now fails with `error`; 0: none does.
  void fail_call(int n, int error) {
    fault_ = {calls_ + n, error, n > 0};
    fault_fired_ = false;
  }
  /// The n-th call from now is the last one the machine makes; its effect is lost.
  void lose_power_at(int n) { power_ = {calls_ + n, 0, n > 0}; }
  bool fault_fired() const { return fault_fired_; }
  /// Calls so far, as "create run/staging/x".
  const std::vector<std::string>& log() const { return log_; }

  /// How many states the disk may be in after a power loss now: reboot(0) .. reboot(n - 1).
  size_t possible_disks() const { return journal_.size() + 1; }
  /// Comes back with the first `names` of the unsynced name changes. Unsynced content is lost for
  /// `seed` 0; else each file has, by chance, none of it, all of it, a torn part, or as many zeros:
  /// blocks reach the disk in any order.
  void reboot(size_t names, uint64_t seed = 0) {
    std::mt19937_64 random(seed);
    tree_ = names == 0 ? durable_ : journal_[names - 1];
    for (auto& [path, node] : tree_) {
      if (node.folder) continue;
      node.content = std::make_shared<Content>(*node.content);
      Content& content = *node.content;
      content.bytes = seed == 0 ? content.synced : torn(content, random);
      content.synced = content.bytes;
    }
    durable_ = tree_;
    journal_.clear();
    dead_ = false;
    power_ = fault_ = {};
  }

  /// The bytes of a file, to damage them.
  std::string& content(const std::string& path) { return file(path, "read").content->bytes; }
  bool exists(const std::string& path) const { return tree_.contains(path); }
  void erase(const std::string& path) { tree_.erase(path); }
  std::vector<std::string> paths() const {
    std::vector<std::string> out;
    for (const auto& [path, node] : tree_) out.push_back(path);
    return out;
  }

  std::unique_ptr<OutputFile> create(const std::string& path) override {
    call("create", path);
    if (exists(path)) throw FileError("create", path, EEXIST);
    if (!exists(parent(path))) throw FileError("create", path, ENOENT);
    tree_[path] = {false, std::make_shared<Content>()};
    changed();
    return std::make_unique<Output>(*this, path, tree_[path].content);
  }

  SharedBytes read(const std::string& path) override {
    call("read", path);
    const auto copy = std::make_shared<std::string>(file(path, "read").content->bytes);
    return {as_bytes(*copy), copy};
  }

  void make_dirs(const std::string& path) override {
    call("make the folder", path);
    for (size_t at = path.find('/', 1); at != path.npos; at = path.find('/', at + 1)) {
      tree_.try_emplace(path.substr(0, at), Node{true, nullptr});
    }
    tree_.try_emplace(path, Node{true, nullptr});
    changed();
  }

  void sync_dir(const std::string& path) override {
    call("sync", path);
    if (!exists(path)) throw FileError("sync", path, ENOENT);
    durable_ = tree_;
    journal_.clear();
  }

  void rename(const std::string& from, const std::string& to) override {
    call("rename", from);
    if (!exists(from) || !exists(parent(to))) throw FileError("rename", from, ENOENT);
    if (exists(to)) throw FileError("rename", from, ENOTEMPTY);
    Tree moved;
    for (const auto& [path, node] : tree_) {
      const bool inside = path == from || path.starts_with(from + "/");
      moved[inside ? to + path.substr(from.size()) : path] = node;
    }
    tree_ = std::move(moved);
    changed();
  }

  void remove_tree(const std::string& path) override {
    std::vector<std::string> doomed;
    for (const auto& [name, node] : tree_) {
      if (name == path || name.starts_with(path + "/")) doomed.push_back(name);
    }
    for (auto name = doomed.rbegin(); name != doomed.rend(); ++name) {
      call("remove", *name);
      tree_.erase(*name);
      changed();
    }
  }

  std::vector<DirEntry> list(const std::string& path) override {
    call("list", path);
    std::vector<DirEntry> out;
    for (const auto& [name, node] : tree_) {
      if (parent(name) != path) continue;
      out.push_back({name.substr(path.size() + 1),
                     node.folder ? DirEntry::Kind::kFolder : DirEntry::Kind::kFile,
                     node.folder ? 0 : static_cast<int64_t>(node.content->bytes.size())});
    }
    return out;
  }

  int64_t free_space(const std::string& path) override {
    call("look at", path);
    return free_bytes;
  }

 private:
  struct Content {
    std::string bytes;
    std::string synced;
  };
  struct Node {
    bool folder;
    std::shared_ptr<Content> content;
  };
  using Tree = std::map<std::string, Node>;
  struct Trap {
    int at = 0;
    int error = 0;
    bool armed = false;
  };

  class Output final : public OutputFile {
   public:
    Output(MemoryFiles& files, std::string path, std::shared_ptr<Content> content)
        : files_(files), path_(std::move(path)), content_(std::move(content)) {}
    void write(ByteSpan bytes) override {
      // A full disk takes some of the bytes before it refuses the rest.
      content_->bytes += as_text(bytes.first(bytes.size() / 2));
      files_.call("write", path_);
      content_->bytes += as_text(bytes.subspan(bytes.size() / 2));
    }
    void sync() override {
      files_.call("sync", path_);
      content_->synced = content_->bytes;
    }
    void close() override { files_.call("close", path_); }

   private:
    MemoryFiles& files_;
    std::string path_;
    std::shared_ptr<Content> content_;
  };

  static std::string torn(const Content& content, std::mt19937_64& random) {
    const std::string& all = content.bytes;
    if (content.synced == all) return all;
    switch (random() % 4) {
      case 0:
        return content.synced;
      case 1:
        return all;
      case 2:
        return all.substr(0, random() % (all.size() + 1));
      default: {
        std::string holes = all;
        const size_t from = random() % (all.size() + 1);
        holes.replace(from, all.size() - from, all.size() - from, '\0');
        return holes;
      }
    }
  }

  static std::string parent(const std::string& path) { return path.substr(0, path.rfind('/')); }

  void call(const char* action, const std::string& path) {
    if (dead_) throw PowerLoss();
    log_.push_back(std::string(action) + " " + path);
    ++calls_;
    if (power_.armed && calls_ == power_.at) {
      dead_ = true;
      throw PowerLoss();
    }
    if (fault_.armed && calls_ == fault_.at) {
      fault_fired_ = true;
      throw FileError(action, path, fault_.error);
    }
  }

  void changed() { journal_.push_back(tree_); }

  Node& file(const std::string& path, const char* action) {
    const auto found = tree_.find(path);
    if (found == tree_.end()) throw FileError(action, path, ENOENT);
    if (found->second.folder) throw FileError(action, path, EISDIR);
    return found->second;
  }

  Tree tree_;
  Tree durable_;
  std::vector<Tree> journal_;
  std::vector<std::string> log_;
  Trap fault_;
  Trap power_;
  int calls_ = 0;
  bool dead_ = false;
  bool fault_fired_ = false;
};

}  // namespace accel
