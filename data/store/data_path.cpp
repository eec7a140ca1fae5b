#include "data/store/data_path.h"

#include "core/base/text.h"
#include "core/base/url.h"

namespace accel {
namespace {

struct UrlProblem {
  std::string message;
  std::string hint;
};

std::optional<UrlProblem> problem_of(const std::string& url, const std::string& name) {
  const size_t host = url.find("://") + 3;
  const std::string scheme = url.substr(0, host);
  const std::string shown = printable_url(url);
  if (scheme != "https://" && scheme != "http://" && scheme != "s3://") {
    return UrlProblem{text("'{}' is the URL '{}' of an unknown protocol", name, shown),
                      "use https://, http:// or s3://BUCKET/PREFIX"};
  }
  if (url.substr(host, url.find('/', host) - host).find('@') != url.npos) {
    return UrlProblem{text("'{}' is the URL '{}' with a user name or password", name, shown),
                      "a recipe is recorded with its run: keep them in ~/.netrc, or for s3:// in "
                      "AWS's variables or files"};
  }
  if (url.find_first_of("?#", host) != url.npos) {
    return UrlProblem{text("'{}' is the URL '{}' with a query", name, shown),
                      "a recipe is recorded with its run, and a query may hold a signature: use "
                      "s3://BUCKET/PREFIX with AWS's variables, or a URL without a query"};
  }
  if (origin_of_url(url) == scheme) {
    return UrlProblem{text("'{}' is the URL '{}' without a host or bucket", name, shown),
                      "use https://HOST/PATH or s3://BUCKET/PREFIX"};
  }
  return std::nullopt;
}

}  // namespace

bool is_url(const std::string& text) {
  return text.find("://") != text.npos;
}

std::optional<DataPath> Codec<DataPath>::read(const Node& node, const std::string& name,
                                              Reading& reading) {
  if (!node.scalar() || !accel::is_url(node.scalar()->text)) {
    std::optional<FilePath> path = Codec<FilePath>::read(node, name, reading);
    return path ? std::optional(DataPath{std::move(path->text)}) : std::nullopt;
  }
  std::string url = node.scalar()->text;
  if (const auto problem = problem_of(url, name)) {
    reading.problems.error(node.where, problem->message, problem->hint);
    return std::nullopt;
  }
  while (url.ends_with('/')) url.pop_back();
  return DataPath{std::move(url)};
}

}  // namespace accel
