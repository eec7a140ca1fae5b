#include "data/store/streamed_files.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr auto kNumbers = "{000000..000099}";

}  // namespace

std::vector<std::string> expanded_names(const std::string& name, const std::string& extension) {
  const size_t open = name.find('{'), dots = name.find("..", open), close = name.find('}', dots);
  if (open == name.npos) return {name};
  const auto number = [&](size_t begin, size_t end) {
    const std::string_view digits = std::string_view(name).substr(begin, end - begin);
    int64_t out = -1;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return parsed.ptr == digits.data() + digits.size() ? out : -1;
  };
  constexpr int64_t kMost = 1'000'000;
  const int64_t first = close == name.npos ? -1 : number(open + 1, dots);
  const int64_t last = close == name.npos ? -1 : number(dots + 2, close);
  if (first < 0 || last < first || last - first >= kMost) {
    throw DataError(text("'{}' has no range of numbers in braces", name),
                    text("write 'shard-{}{}'", kNumbers, extension));
  }
  std::vector<std::string> out;
  for (int64_t i = first; i <= last; ++i) {
    std::string digits = std::to_string(i);
    digits.insert(0, std::string(dots - open - 1 - std::min(dots - open - 1, digits.size()), '0'));
    out.push_back(name.substr(0, open) + digits + name.substr(close + 1));
  }
  return out;
}

namespace {

void add_listed(StreamedObjects& objects, const std::string& url, const std::string& extension,
                const ChooseFiles& choose) {
  const auto listing = objects.store().list(ListingDepth::kFolder);
  if (!listing) {
    throw DataError(text("the server of '{}' lists no files", url),
                    text("name the files, such as '.../shard-{}{}'", kNumbers, extension));
  }
  std::map<std::string, ObjectInfo> found;
  std::vector<std::string> names;
  for (const ObjectInfo& object : *listing) {
    if (!object.name.ends_with(extension)) continue;
    found[object.name] = object;
    names.push_back(object.name);
  }
  if (names.empty()) throw DataError(text("no '*{}' files in '{}'", extension, url));
  std::sort(names.begin(), names.end());
  if (choose) names = choose(std::move(names));
  if (found.at(names.front()).version.empty()) return objects.add(names);
  for (const std::string& name : names) objects.add(found.at(name));
}

}  // namespace

std::shared_ptr<StreamedObjects> stream_files(const std::string& url, const std::string& extension,
                                              const StreamingSection& options,
                                              const ChooseFiles& choose) {
  const bool is_file = url.ends_with(extension);
  const size_t slash = url.rfind('/');
  auto objects = stream_objects(is_file ? url.substr(0, slash) : url, options);
  if (is_file) {
    objects->add(expanded_names(url.substr(slash + 1), extension));
  } else {
    add_listed(*objects, url, extension, choose);
  }
  objects->say_summary(url);
  return objects;
}

}  // namespace accel
