#include "data/datasets/text/shard_files.h"

#include <utility>

#include "core/base/bytes.h"

namespace accel {

ShardFiles::ShardFiles(const std::vector<std::string>& paths) : paths_(paths) {
  for (const std::string& path : paths_) mapped_.push_back(map_file(path));
}

ShardFiles::ShardFiles(std::shared_ptr<StreamedObjects> objects) : objects_(std::move(objects)) {
  for (size_t i = 0; i < objects_->count(); ++i) {
    paths_.push_back(objects_->url_of(i));
    identities_.push_back(objects_->identity(i));
  }
}

SharedBytes ShardFiles::open(size_t shard) const {
  if (!objects_) return mapped_[shard];
  if (shard == 0) {
    std::vector<ObjectPart> all;
    for (size_t i = 0; i < count(); ++i) all.push_back(objects_->whole(i));
    objects_->forget_ahead();  // of a reader that did not reach the end
    objects_->read_ahead(all);
  }
  return objects_->map(shard);
}

FileContents ShardFiles::contents() const {
  FileContents all;
  for (const SharedBytes& file : mapped_) all.emplace_back(file.view);
  for (size_t i = 0; i < identities_.size(); ++i) {
    all.emplace_back(as_bytes(identities_[i]), objects_->info(i).size);
  }
  return all;
}

}  // namespace accel
