#include "data/store/xml.h"

#include <array>
#include <utility>

namespace accel {
namespace {

/// Text with its XML entities decoded.
std::string xml_text(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, char>, 8> kEntities = {{{"&amp;", '&'},
                                                                                  {"&lt;", '<'},
                                                                                  {"&gt;", '>'},
                                                                                  {"&quot;", '"'},
                                                                                  {"&apos;", '\''},
                                                                                  {"&#34;", '"'},
                                                                                  {"&#38;", '&'},
                                                                                  {"&#39;", '\''}}};
  std::string out;
  while (!text.empty()) {
    size_t taken = 1;
    char next = text.front();
    for (const auto& [entity, character] : kEntities) {
      if (!text.starts_with(entity)) continue;
      next = character;
      taken = entity.size();
    }
    out += next;
    text.remove_prefix(taken);
  }
  return out;
}

}  // namespace

std::optional<std::string> xml_element(std::string_view xml, const std::string& name) {
  const std::string begin = "<" + name + ">";
  const size_t at = xml.find(begin);
  if (at == xml.npos) return std::nullopt;
  const size_t end = xml.find("</" + name + ">", at);
  if (end == xml.npos) return std::nullopt;
  return xml_text(xml.substr(at + begin.size(), end - at - begin.size()));
}

}  // namespace accel
