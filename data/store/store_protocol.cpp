#include "data/store/store_protocol.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/format_error.h"
#include "core/base/text.h"
#include "core/base/url.h"
#include "data/store/aws_credentials.h"
#include "data/store/aws_profile.h"
#include "data/store/xml.h"
#include "formats/strict_json.h"
#include "formats/untrusted.h"

namespace accel {
namespace {

constexpr std::string_view kS3 = "s3://";

std::time_t clock_time() {
  return std::time(nullptr);
}

std::string joined_url(const std::string& folder, const std::string& name) {
  return name.empty() ? folder : folder + "/" + name;
}

/// The listing of a dataset of the hub.
struct HubFolder {
  std::string listing;  ///< its URL; empty: another URL
  std::string prefix;   ///< of the folder's files
};

/// Of HUB/datasets/ORGANISATION/NAME/resolve/REVISION[/FOLDER].
HubFolder hub_folder(const std::string& hub, const std::string& url) {
  constexpr std::string_view kResolve = "/resolve/";
  const std::string start = hub + "/datasets/";
  const size_t resolve = url.starts_with(start) ? url.find(kResolve, start.size()) : url.npos;
  if (resolve == url.npos) return {};
  const size_t revision = resolve + kResolve.size();
  const size_t end = std::min(url.find('/', revision), url.size());
  return {
      text("{}/api/datasets/{}/revision/{}", hub, url.substr(start.size(), resolve - start.size()),
           url.substr(revision, end - revision)),
      end < url.size() ? url.substr(end + 1) + "/" : ""};
}

/// `siblings` of the hub's answer, below `prefix`; none for other JSON.
std::optional<ListingPage> hub_listing(const std::string& body, const std::string& prefix) {
  constexpr int kMostDepth = 32;
  ListingPage out;
  try {
    MemoryBudget budget(body.size(), "the listing");
    const nlohmann::json json = parse_strict_json(body, "the listing", kMostDepth, budget);
    for (const auto& file : json.at("siblings")) {
      const auto name = file.at("rfilename").get<std::string>();
      if (!name.starts_with(prefix)) continue;
      out.objects.emplace_back();
      out.objects.back().name = name.substr(prefix.size());
    }
  } catch (const FormatError&) {
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  return out;
}

class WebProtocol final : public StoreProtocol {
 public:
  WebProtocol(std::string url, const EnvironmentLookup& environment) : url_(std::move(url)) {
    std::string hub = environment("HF_ENDPOINT").value_or("https://huggingface.co");
    while (hub.ends_with('/')) hub.pop_back();
    const std::string token = environment("HF_TOKEN").value_or("");
    if (origin_of_url(hub) == origin_of_url(url_)) credential_ = {origin_of_url(hub), token};
    hub_folder_ = hub_folder(hub, url_);
  }

  std::string url_of(const std::string& name) const override {
    return printable_url(joined_url(url_, name));
  }
  HttpQuery query(const std::string& name,
                  const std::map<std::string, std::string>& headers) const override {
    HttpQuery out{.url = joined_url(url_, aws_encoded(name, true))};
    for (const auto& [key, value] : headers) out.headers.push_back(key + ": " + value);
    out.netrc = credential_.token.empty();
    return out;
  }
  std::optional<HttpQuery> list_query(const std::string&, ListingDepth) const override {
    if (hub_folder_.listing.empty()) return std::nullopt;
    return HttpQuery{.url = hub_folder_.listing};
  }
  std::optional<ListingPage> page_in(const std::string& body) const override {
    return hub_listing(body, hub_folder_.prefix);
  }
  Credential credential() const override { return credential_; }
  std::string refusal_hint() const override {
    return "the hub reads HF_TOKEN, other servers the password in ~/.netrc";
  }

 private:
  std::string url_;
  Credential credential_;
  HubFolder hub_folder_;
};

class S3Protocol final : public StoreProtocol {
 public:
  S3Protocol(const std::string& url, const AwsProfile& profile, const ClientFactory& make_client)
      : region_(profile.region()),
        credentials_(find_credential_provider(profile, make_client, &clock_time), &clock_time) {
    const std::string endpoint = profile.endpoint("S3");
    const std::string path = url.substr(kS3.size());
    const size_t slash = std::min(path.find('/'), path.size());
    bucket_ = path.substr(0, slash);
    prefix_ = path.substr(std::min(slash + 1, path.size()));
    const std::string aws = "s3." + region_ + ".amazonaws.com";
    // The certificate of a bucket's host name does not cover names with dots.
    const bool by_path = !endpoint.empty() || bucket_.find('.') != bucket_.npos;
    if (by_path) {
      origin_ = endpoint.empty() ? "https://" + aws : endpoint;
      root_ = "/" + bucket_;
    } else {
      origin_ = "https://" + bucket_ + "." + aws;
    }
    const size_t host = origin_.find("://") + 3;
    const size_t path_of_endpoint = std::min(origin_.find('/', host), origin_.size());
    host_ = origin_.substr(host, path_of_endpoint - host);
    root_ = origin_.substr(path_of_endpoint) + root_;
    origin_ = origin_.substr(0, path_of_endpoint);
  }

  std::string url_of(const std::string& name) const override {
    return printable_url(joined_url(joined_url(std::string(kS3) + bucket_, prefix_), name));
  }
  HttpQuery query(const std::string& name,
                  const std::map<std::string, std::string>& headers) const override {
    const std::string key = prefix_.empty() ? name : joined_url(prefix_, name);
    return signed_query({host_, root_ + "/" + key, {}, headers});
  }
  std::optional<HttpQuery> list_query(const std::string& token, ListingDepth depth) const override {
    S3Request request{host_, root_ + (root_.empty() ? "/" : ""), {}, {}};
    request.query = {{"list-type", "2"}, {"prefix", folder()}};
    if (depth == ListingDepth::kFolder) request.query["delimiter"] = "/";
    if (!token.empty()) request.query["continuation-token"] = token;
    return signed_query(request);
  }
  std::optional<ListingPage> page_in(const std::string& body) const override {
    auto page = listing_page(body);
    if (!page) return page;
    std::erase_if(page->objects,
                  [&](const ObjectInfo& object) { return !object.name.starts_with(folder()); });
    for (ObjectInfo& object : page->objects) object.name.erase(0, folder().size());
    return page;
  }
  Credential credential() const override { return {}; }
  std::string refusal_hint() const override { return credentials_.refusal_hint(region_); }

 private:
  std::string folder() const { return prefix_.empty() ? "" : prefix_ + "/"; }
  HttpQuery signed_query(const S3Request& request) const {
    HttpQuery out{.url = origin_ + aws_encoded(request.path, true)};
    if (!request.query.empty()) out.url += "?" + aws_query(request.query);
    out.headers = signed_headers(request, credentials_.current(), region_, clock_time());
    return out;
  }

  const std::string region_;
  mutable AwsCredentials credentials_;
  std::string bucket_, prefix_, origin_, host_, root_;
};

}  // namespace

std::optional<ListingPage> listing_page(const std::string& xml) {
  if (xml.find("<ListBucketResult") == xml.npos) return std::nullopt;
  ListingPage out;
  constexpr std::string_view kBegin = "<Contents>", kEnd = "</Contents>";
  for (size_t at = xml.find(kBegin); at != xml.npos; at = xml.find(kBegin, at + 1)) {
    const size_t end = xml.find(kEnd, at);
    if (end == xml.npos) return std::nullopt;
    const std::string_view entry = std::string_view(xml).substr(at, end - at);
    const auto key = xml_element(entry, "Key"), size = xml_element(entry, "Size"),
               etag = xml_element(entry, "ETag");
    ObjectInfo object;
    if (!key || !size || !etag) return std::nullopt;
    const auto parsed = std::from_chars(size->data(), size->data() + size->size(), object.size);
    if (parsed.ec != std::errc() || object.size < 0) return std::nullopt;
    object.name = *key;
    object.version = *etag;
    out.objects.push_back(std::move(object));
  }
  if (xml_element(xml, "IsTruncated") == "true") {
    out.next = xml_element(xml, "NextContinuationToken").value_or("");
    if (out.next.empty()) return std::nullopt;
  }
  return out;
}

std::unique_ptr<StoreProtocol> make_protocol(const std::string& url,
                                             const EnvironmentLookup& environment,
                                             const ClientFactory& make_client) {
  if (url.starts_with(kS3)) {
    return std::make_unique<S3Protocol>(url, AwsProfile(environment), make_client);
  }
  return std::make_unique<WebProtocol>(url, environment);
}

}  // namespace accel
