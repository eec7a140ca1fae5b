// Object stores: a folder of objects on a web server or in an S3 bucket, read by ranges.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/environment.h"
#include "core/base/http_client.h"
#include "data/store/object_info.h"

namespace accel {

/// Thread-safe. Requests are repeated with growing pauses. Throws IoError when the last one fails
/// and DataError when an object is missing or is no longer the one of its ObjectInfo; both name the
/// object.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// Of an object, for messages.
  virtual std::string url_of(const std::string& name) const = 0;
  /// The objects of the folder, by name; none: the server has no listings. The hub's have neither
  /// size nor version.
  virtual std::optional<std::vector<ObjectInfo>> list(ListingDepth depth) = 0;
  /// None for a missing object.
  virtual std::optional<ObjectInfo> find(const std::string& name) = 0;
  /// The bytes of the range, in order and each once. A requested stop is an IoError.
  virtual void read(const ObjectInfo& object, ByteRange range, const ByteSink& sink,
                    const std::stop_token& stop) = 0;
};

struct TransferPolicy {
  int64_t retries = 8;                   ///< consecutive, without progress
  int64_t stall_seconds = 10;            ///< without a byte
  std::chrono::milliseconds pause{500};  ///< at most, before the first retry; doubles each time
  std::chrono::milliseconds longest_pause{30'000};
};

struct StoreContext {
  TransferPolicy policy = {};
  ClientFactory make_client;
  EnvironmentLookup environment;
};

/// libcurl and the environment of this process.
StoreContext store_context(const TransferPolicy& policy);

/// The store of the folder `url`: https://..., http://... or s3://BUCKET/PREFIX. The hub's server
/// is sent HF_TOKEN, others the password of ~/.netrc; S3 is used as in aws_profile.h and
/// aws_credentials.h. Throws
/// DataError.
std::unique_ptr<ObjectStore> open_store(const std::string& url, const StoreContext& context);

}  // namespace accel
