// A file system in memory that can fail or lose power at any call: the test double of Files.
#pragma once

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "formats/checksum.h"

namespace accel {

/// The machine stopped. No error of ours: nothing may catch it and go on.
struct PowerLoss {};

/// What a power loss may leave is as little as POSIX promises: the content of a file is there once
/// the file was synced, a name once its folder was, and of all that was not synced any part may be
/// there, in any order. A rename happens wholly or not at all, and is safe when either folder is.
class MemoryFiles final : public Files {
 public:
  static constexpr int kForever = std::numeric_limits<int>::max();

  int64_t free_bytes = int64_t{1} << 40;

  MemoryFiles() : objects_{{true, {}, {}, {}, {}}} {}

  /// The n-th call from now and those behind it fail with `error`, `times` in all; n = 0: none.
  void fail_call(int n, int error, int times = 1) {
    fault_ = {calls_ + n, error, n > 0 ? times : 0};
    fault_paths_.clear();
  }
  /// The n-th call from now is the last one the machine makes; its effect is lost.
  void lose_power_at(int n) { power_at_ = n > 0 ? calls_ + n : 0; }
  /// The paths of the calls that failed since fail_call().
  const std::vector<std::string>& fault_paths() const { return fault_paths_; }
  bool fault_fired() const { return !fault_paths_.empty(); }
  /// Calls so far, as "create run/staging/x".
  const std::vector<std::string>& log() const { return log_; }

  /// Names created, renamed and removed that no folder was synced for. Comes back from a power loss
  /// with those of them that `kept` says. Unsynced content is lost for `seed` 0; else each file
  /// has, by chance, none of it, all of it, a torn part, as many zeros, or some of its blocks.
  size_t unsynced_names() const { return changes_.size(); }
  void reboot(const std::vector<bool>& kept = {}, uint64_t seed = 0) {
    for (size_t i = 0; i < kept.size(); ++i) {
      if (kept[i]) make_durable(changes_[i]);
    }
    std::mt19937_64 random(seed);
    for (Object& object : objects_) {
      object.names = object.synced_names;
      object.bytes = seed == 0 ? object.synced : torn(object, random);
      object.synced = object.bytes;
    }
    changes_.clear();
    plug_in();
  }
  /// The process is gone but not the machine: nothing is lost.
  void plug_in() {
    dead_ = false;
    power_at_ = 0;
    fault_ = {};
  }

  /// The bytes of a file, to damage them.
  std::string& content(const std::string& path) { return file(path, "read").bytes; }
  bool exists(const std::string& path) const { return find(path).has_value(); }
  void erase(const std::string& path) {
    const auto [folder, name] = split(path);
    objects_[*find(folder)].names.erase(name);
  }
  std::vector<std::string> paths() const {
    std::vector<std::string> out;
    add_paths(kRoot, "", out);
    std::sort(out.begin(), out.end());
    return out;
  }

  /// Of all names and contents: equal disks have equal ones.
  uint64_t digest() const {
    Checksum sum;
    for (const std::string& path : paths()) {
      const std::string& bytes = objects_[*find(path)].bytes;
      const std::string head = path + " " + std::to_string(bytes.size()) + "\n";
      sum.update(as_bytes(head));
      sum.update(as_bytes(bytes));
    }
    return sum.value();
  }

  std::unique_ptr<OutputFile> create(const std::string& path) override {
    call("create", path);
    if (exists(path)) throw FileError("create", path, EEXIST);
    const size_t made = add(path, "create", false);
    return std::make_unique<Output>(*this, path, made);
  }

  SharedBytes read(const std::string& path) override {
    call("read", path);
    const auto copy = std::make_shared<std::string>(file(path, "read").bytes);
    return {as_bytes(*copy), copy};
  }

  using Files::make_dirs;
  void make_dirs(const std::string& path, const std::string& within) override {
    call("make the folder", path);
    const std::string parent = within.substr(0, within.find_last_not_of('/') + 1);
    if (!parent.empty() && !exists(parent)) throw FileError("make the folder", path, ENOENT);
    for (size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
      const std::string folder = path.substr(0, at);
      if (!exists(folder)) add(folder, "make the folder", true);
      if (at == path.npos) return;
    }
  }

  void sync_dir(const std::string& path) override {
    call("sync", path);
    const std::optional<size_t> folder = find(path);
    if (!folder) throw FileError("sync", path, ENOENT);
    // Backwards: what is safe makes safe what it builds on.
    std::vector<bool> safe(changes_.size());
    for (size_t i = changes_.size(); i-- > 0;) {
      safe[i] = changes_[i].touches(*folder);
      for (size_t later = i + 1; later < changes_.size() && !safe[i]; ++later) {
        safe[i] = safe[later] && changes_[later].builds_on(changes_[i]);
      }
    }
    std::vector<Change> rest;
    for (size_t i = 0; i < changes_.size(); ++i) {
      if (safe[i]) {
        make_durable(changes_[i]);
      } else {
        rest.push_back(changes_[i]);
      }
    }
    changes_ = rest;
  }

  void rename(const std::string& from, const std::string& to) override {
    call("rename", from);
    const auto [folder, name] = split(to);
    if (!exists(from) || !exists(folder)) throw FileError("rename", from, ENOENT);
    if (exists(to)) throw FileError("rename", from, ENOTEMPTY);
    change({*find(from), place_of(from), Place{*find(folder), name}});
  }

  void remove_tree(const std::string& path) override {
    if (!exists(path)) return;
    std::vector<std::string> doomed = {path};
    add_paths(*find(path), path, doomed);
    std::sort(doomed.rbegin(), doomed.rend());
    for (const std::string& name : doomed) {
      call("remove", name);
      change({*find(name), place_of(name), std::nullopt});
    }
  }

  std::vector<DirEntry> list(const std::string& path) override {
    call("list", path);
    std::vector<DirEntry> out;
    const std::optional<size_t> folder = find(path);
    if (!folder) return out;
    for (const auto& [name, id] : objects_[*folder].names) {
      const Object& object = objects_[id];
      out.push_back({name, object.folder ? DirEntry::Kind::kFolder : DirEntry::Kind::kFile,
                     static_cast<int64_t>(object.bytes.size())});
    }
    return out;
  }

  int64_t free_space(const std::string& path) override {
    call("look at", path);
    return free_bytes;
  }

 private:
  static constexpr size_t kRoot = 0;
  static constexpr size_t kBlockBytes = 512;

  /// A file or a folder, whatever its name. `synced...` is what the disk has for sure.
  struct Object {
    bool folder;
    std::map<std::string, size_t> names, synced_names;
    std::string bytes, synced;
  };
  struct Place {
    size_t folder;
    std::string name;
    bool operator==(const Place&) const = default;
  };
  /// An object that gets a name, loses one or changes it.
  struct Change {
    size_t object;
    std::optional<Place> from, to;

    bool touches(size_t folder) const {
      return (from && from->folder == folder) || (to && to->folder == folder);
    }
    bool builds_on(const Change& earlier) const {
      const auto uses = [&](const std::optional<Place>& place) {
        return place && (place == earlier.from || place == earlier.to);
      };
      return uses(from) || uses(to);
    }
  };
  struct Fault {
    int at = 0;
    int error = 0;
    int times = 0;
  };

  class Output final : public OutputFile {
   public:
    Output(MemoryFiles& files, std::string path, size_t object)
        : files_(files), path_(std::move(path)), object_(object) {}
    void write(ByteSpan bytes) override {
      // A full disk takes some of the bytes before it refuses the rest.
      files_.objects_[object_].bytes += as_text(bytes.first(bytes.size() / 2));
      files_.call("write", path_);
      files_.objects_[object_].bytes += as_text(bytes.subspan(bytes.size() / 2));
    }
    void sync() override {
      files_.call("sync", path_);
      files_.objects_[object_].synced = files_.objects_[object_].bytes;
    }
    void close() override { files_.call("close", path_); }

   private:
    MemoryFiles& files_;
    std::string path_;
    size_t object_;
  };

  static std::string torn(const Object& object, std::mt19937_64& random) {
    const std::string& all = object.bytes;
    if (object.synced == all) return all;
    std::string out = all;
    const size_t from = random() % (all.size() + 1);
    switch (random() % 5) {
      case 0:
        return object.synced;
      case 1:
        return all;
      case 2:
        return all.substr(0, from);
      case 3:
        return out.replace(from, all.size() - from, all.size() - from, '\0');
      default:
        for (size_t at = 0; at < all.size(); at += kBlockBytes) {
          const size_t size = std::min(kBlockBytes, all.size() - at);
          if (random() % 2) out.replace(at, size, size, '\0');
        }
        return out;
    }
  }

  static std::pair<std::string, std::string> split(const std::string& path) {
    const size_t at = path.rfind('/');
    return {path.substr(0, at), path.substr(at + 1)};
  }

  std::optional<size_t> find(const std::string& path) const {
    if (path.empty() || path == "/") return kRoot;
    const auto [folder, name] = split(path);
    const std::optional<size_t> in = find(folder);
    if (!in) return std::nullopt;
    const auto found = objects_[*in].names.find(name);
    return found == objects_[*in].names.end() ? std::nullopt : std::optional(found->second);
  }

  Place place_of(const std::string& path) const {
    const auto [folder, name] = split(path);
    return {*find(folder), name};
  }

  void add_paths(size_t folder, const std::string& path, std::vector<std::string>& out) const {
    for (const auto& [name, id] : objects_[folder].names) {
      const std::string inside = path + "/" + name;
      out.push_back(inside);
      add_paths(id, inside, out);
    }
  }

  size_t add(const std::string& path, const char* action, bool folder) {
    const std::optional<size_t> parent = find(split(path).first);
    if (!parent) throw FileError(action, path, ENOENT);
    objects_.push_back({folder, {}, {}, {}, {}});
    change({objects_.size() - 1, std::nullopt, Place{*parent, split(path).second}});
    return objects_.size() - 1;
  }

  void change(const Change& made) {
    if (made.from) objects_[made.from->folder].names.erase(made.from->name);
    if (made.to) objects_[made.to->folder].names[made.to->name] = made.object;
    changes_.push_back(made);
  }

  void make_durable(const Change& made) {
    if (made.from) {
      auto& names = objects_[made.from->folder].synced_names;
      const auto found = names.find(made.from->name);
      // Another object may have the name when changes come in another order.
      if (found != names.end() && found->second == made.object) names.erase(found);
    }
    if (made.to) objects_[made.to->folder].synced_names[made.to->name] = made.object;
  }

  void call(const char* action, const std::string& path) {
    if (dead_) throw PowerLoss();
    log_.push_back(std::string(action) + " " + path);
    ++calls_;
    if (calls_ == power_at_) {
      dead_ = true;
      throw PowerLoss();
    }
    if (fault_.times > 0 && calls_ >= fault_.at) {
      --fault_.times;
      fault_paths_.push_back(path);
      throw FileError(action, path, fault_.error);
    }
  }

  Object& file(const std::string& path, const char* action) {
    const std::optional<size_t> found = find(path);
    if (!found) throw FileError(action, path, ENOENT);
    if (objects_[*found].folder) throw FileError(action, path, EISDIR);
    return objects_[*found];
  }

  std::vector<Object> objects_;
  std::vector<Change> changes_;  // not synced, in the order they were made
  std::vector<std::string> log_;
  std::vector<std::string> fault_paths_;
  Fault fault_;
  int power_at_ = 0;
  int calls_ = 0;
  bool dead_ = false;
};

}  // namespace accel
