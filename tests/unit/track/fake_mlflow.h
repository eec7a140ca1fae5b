// An MLflow server in memory.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/unit/track/fake_transport.h"

namespace accel {

class FakeMlflow {
 public:
  using Json = nlohmann::json;
  struct Point {
    int64_t step;
    double value;
    int64_t time;
    auto operator<=>(const Point&) const = default;
  };

  HttpReply answer(const HttpRequest& request) {
    const Json body = Json::parse(request.body.empty() ? "{}" : request.body, nullptr, false);
    const std::string& url = request.url;
    if (url.find("experiments/get-by-name") != std::string::npos) {
      if (!experiment) return missing();
      return good({{"experiment", {{"experiment_id", "7"}}}});
    }
    if (url.ends_with("experiments/create")) {
      experiment = true;
      return good({{"experiment_id", "7"}});
    }
    if (url.ends_with("runs/search")) {
      if (uid.empty() || body["filter"].get<std::string>().find(uid) == std::string::npos) {
        return good(Json::object());
      }
      return good({{"runs", {{{"info", info()}}}}});
    }
    if (url.ends_with("runs/create")) {
      ++runs;
      uid = body["tags"][0]["value"];
      return good({{"run", {{"info", info()}}}});
    }
    if (url.ends_with("runs/update")) status = body["status"];
    if (request.method == "PUT") artifacts[url] = request.body;
    if (url.ends_with("runs/log-batch")) return log(body);
    return good(Json::object());
  }

  /// As MLflow: what it has already, time included, is not entered again.
  HttpReply log(const Json& body) {
    for (const char* place : {"metrics", "params", "tags"}) {
      for (const Json& item : body.value(place, Json::array())) {
        if (item["key"] == refuse) {
          return {400, R"({"error_code":"INVALID_PARAMETER_VALUE","message":"not that"})", ""};
        }
      }
    }
    for (const Json& item : body.value("metrics", Json::array())) {
      const double value = item["value"].is_number() ? item["value"].get<double>() : -1;
      metrics[item["key"]].insert({item["step"], value, item["timestamp"]});
    }
    for (const Json& item : body.value("params", Json::array()))
      params[item["key"]] = item["value"];
    for (const Json& item : body.value("tags", Json::array())) tags[item["key"]] = item["value"];
    return good(Json::object());
  }

  static HttpReply good(const Json& body) { return {200, body.dump(), ""}; }
  static HttpReply missing() {
    return {404, R"({"error_code":"RESOURCE_DOES_NOT_EXIST","message":"none"})", ""};
  }
  static Json info() {
    return {{"run_id", "cafe"}, {"artifact_uri", "mlflow-artifacts:/7/cafe/artifacts"}};
  }

  bool experiment = false;
  int runs = 0;
  std::string uid;
  std::string status;
  std::string refuse;  ///< a key it does not take
  std::map<std::string, std::set<Point>> metrics;
  std::map<std::string, std::string> params;
  std::map<std::string, std::string> tags;
  std::map<std::string, std::string> artifacts;
};

}  // namespace accel
