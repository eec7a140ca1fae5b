// What differs between web servers and S3: addresses, credentials and listings.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/environment.h"
#include "core/base/http_client.h"
#include "data/store/object_info.h"

namespace accel {

struct ListingPage;

/// Thread-safe.
class StoreProtocol {
 public:
  virtual ~StoreProtocol() = default;

  /// For messages.
  virtual std::string url_of(const std::string& name) const = 0;
  /// GET of an object; header names in lower case.
  virtual HttpQuery query(const std::string& name,
                          const std::map<std::string, std::string>& headers) const = 0;
  /// GET of a page of the listing; "" is the token of the first. None: no listings.
  virtual std::optional<HttpQuery> list_query(const std::string& token,
                                              ListingDepth depth) const = 0;
  /// The page in an answer to it, with names below the folder. None for other text.
  virtual std::optional<ListingPage> page_in(const std::string& body) const = 0;
  virtual Credential credential() const = 0;
  /// What to do about a 401 or 403.
  virtual std::string refusal_hint() const = 0;
};

std::unique_ptr<StoreProtocol> make_protocol(const std::string& url,
                                             const EnvironmentLookup& environment,
                                             const ClientFactory& make_client);

struct ListingPage {
  std::vector<ObjectInfo> objects;
  std::string next;  ///< token of the next page; "": this is the last
};

/// A page of ListObjectsV2, with whole keys; none for other XML.
std::optional<ListingPage> listing_page(const std::string& xml);

}  // namespace accel
