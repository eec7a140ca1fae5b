#include "data/datasets/text/shard_files.h"

#include <utility>

#include "core/base/bytes.h"
#include "formats/records/text_encoding.h"

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
  for (size_t i = 0; i < count(); ++i) all.push_back(content(i));
  return all;
}

FileContent ShardFiles::content(size_t shard) const {
  if (!objects_) return mapped_[shard].view;
  return {as_bytes(identities_[shard]), objects_->info(shard).size};
}

RecordFile::RecordFile(const std::string& path, Content content)
    : path_(path), content_(content), bytes_(map_file(path)) {
  if (content == Content::kText) bytes_ = as_utf8(std::move(bytes_), path);
}

RecordFile::RecordFile(std::shared_ptr<const ShardFiles> objects, size_t object, Content content)
    : path_(objects->path(object)),
      content_(content),
      objects_(std::move(objects)),
      object_(object) {}

SharedBytes RecordFile::open() const {
  if (!objects_) return bytes_;
  SharedBytes bytes = objects_->open(object_);
  return content_ == Content::kText ? as_utf8(std::move(bytes), path_) : bytes;
}

FileContents RecordFile::contents() const {
  return {objects_ ? objects_->content(object_) : FileContent(bytes_.view)};
}

}  // namespace accel
