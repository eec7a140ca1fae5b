#include "formats/records/webdataset.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "formats/strict_json.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr size_t kMaxField = size_t{16} << 20;
constexpr int kMaxFieldDepth = 64;
constexpr std::string_view kJson = "json.";

/// The end of the sample's key in a member's name: the first dot after the folders.
size_t end_of_key(const std::string& name) {
  const size_t slash = name.rfind('/');
  return std::min(name.find('.', slash == std::string::npos ? 0 : slash + 1), name.size());
}

std::string field_of(const std::string& name) {
  std::string field = name.substr(std::min(end_of_key(name) + 1, name.size()));
  std::transform(field.begin(), field.end(), field.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return field;
}

std::string without_line_end(std::string_view content) {
  if (content.ends_with('\n')) content.remove_suffix(1);
  if (content.ends_with('\r')) content.remove_suffix(1);
  return std::string(content);
}

}  // namespace

WebdatasetReader::WebdatasetReader(std::span<const std::byte> archive,
                                   std::vector<std::string> wanted, std::string name)
    : archive_(archive),
      wanted_(std::move(wanted)),
      name_(std::move(name)),
      members_(index_tar(archive, name_)),
      values_(wanted_.size()) {
  std::erase_if(members_, [](const TarMember& member) {  // hidden, or without a dot
    const size_t end = end_of_key(member.name);
    return end == member.name.size() || end == 0 || member.name[end - 1] == '/';
  });
}

void WebdatasetReader::take_sample() {
  fields_.clear();
  key_ = members_[at_].name.substr(0, end_of_key(members_[at_].name));
  for (; at_ < members_.size(); ++at_) {
    const TarMember& member = members_[at_];
    if (member.name.substr(0, end_of_key(member.name)) != key_) return;
    fields_.push_back(
        {field_of(member.name), as_text(archive_.subspan(member.offset, member.size))});
  }
}

std::optional<std::string_view> WebdatasetReader::content_of(std::string_view field) const {
  const auto is_it = [&](const Field& known) { return known.name == field; };
  const auto found = std::find_if(fields_.begin(), fields_.end(), is_it);
  if (found == fields_.end()) return std::nullopt;
  if (std::find_if(found + 1, fields_.end(), is_it) != fields_.end()) {
    throw DataError(text("{} has the field '{}' twice", location(), field));
  }
  if (found->content.size() > kMaxField || !is_utf8(found->content)) {
    throw DataError(text("{}: field '{}' is not UTF-8 of at most 16 MiB", location(), field));
  }
  return found->content;
}

std::string WebdatasetReader::value_of(const std::string& wanted) const {
  if (const auto content = content_of(wanted)) return without_line_end(*content);
  const size_t at = wanted.find(kJson);
  const std::string holder = at == std::string::npos ? "" : wanted.substr(0, at + kJson.size() - 1);
  const auto content = holder.empty() ? std::nullopt : content_of(holder);
  if (!content) {
    std::vector<std::string> names;
    for (const Field& field : fields_) names.push_back(field.name);
    throw DataError(text("{} has no field '{}'", location(), wanted),
                    text("it has the fields {}", quoted_list(names).substr(0, 300)));
  }
  const std::string key = wanted.substr(at + kJson.size());
  try {
    MemoryBudget budget(content->size(), location());
    const json object = parse_strict_json(*content, text("{}: field '{}'", location(), holder),
                                          kMaxFieldDepth, budget);
    const auto found = object.find(key);
    if (found == object.end()) {
      throw FormatError(text("{}: field '{}' has no key '{}'", location(), holder, key));
    }
    if (found->is_string()) return found->get<std::string>();
    if (found->is_number() || found->is_boolean()) return found->dump();
    throw FormatError(text("{}: '{}' has the type '{}', a string, number or boolean wanted",
                           location(), wanted, found->type_name()));
  } catch (const FormatError& error) {
    throw DataError(error.what());
  }
}

bool WebdatasetReader::next(std::vector<std::string_view>& fields) {
  fields.clear();
  if (at_ == members_.size()) return false;
  take_sample();
  for (size_t i = 0; i < wanted_.size(); ++i) values_[i] = value_of(wanted_[i]);
  fields.assign(values_.begin(), values_.end());
  return true;
}

}  // namespace accel
