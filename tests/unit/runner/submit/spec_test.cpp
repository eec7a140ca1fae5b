#include "runner/submit/spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runner/submit/spec_nodes.h"
#include "submit_jobs.h"

namespace accel::spec_test {
namespace {

using Json = nlohmann::json;

std::string data_path(const std::string& name) {
  return std::string(SUBMIT_DATA) + "/" + name;
}

std::string contents(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Compares with golden/NAME. UPDATE_GOLDEN=1 writes it: look at the difference before a commit.
void expect_golden(const std::string& name, const std::string& found) {
  const std::string path = data_path("golden/" + name);
  if (std::getenv("UPDATE_GOLDEN")) std::ofstream(path) << found;
  EXPECT_EQ(found, contents(path)) << path;
}

/// Checks values against schemas/kubernetes.json, the parts of the published schemas that specs
/// use. Its keywords: type, properties, required, items, enum, additionalProperties and $ref.
class SchemaCheck {
 public:
  /// What is not allowed, each with its path.
  std::string violations(const Node& node, const std::string& schema) {
    out_.clear();
    check(Json::parse(to_json(node)), all_.at(schema), schema);
    return out_;
  }

 private:
  static bool fits(const Json& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "integer") return value.is_number_integer();
    if (type == "boolean") return value.is_boolean();
    if (type == "quantity") return value.is_number() || value.is_string();
    return value.is_string();
  }

  void check(const Json& value, const Json& given, const std::string& path) {
    const Json& schema = given.contains("$ref") ? all_.at(given["$ref"]) : given;
    const std::string type = schema.at("type");
    if (!fits(value, type)) {
      out_ += path + " is no " + type + "\n";
    } else if (value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) {
        check(value[i], schema.at("items"), path + "[" + std::to_string(i) + "]");
      }
    } else if (value.is_object()) {
      check_object(value, schema, path);
    } else if (schema.contains("enum")) {
      const Json& words = schema["enum"];
      if (std::find(words.begin(), words.end(), value) == words.end()) {
        out_ += path + " is " + value.dump() + "\n";
      }
    }
  }

  void check_object(const Json& value, const Json& schema, const std::string& path) {
    for (const Json& key : schema.value("required", Json::array())) {
      if (!value.contains(key.get<std::string>())) out_ += path + " lacks " + key.dump() + "\n";
    }
    const Json known = schema.value("properties", Json::object());
    for (const auto& [key, inner] : value.items()) {
      if (known.contains(key)) {
        check(inner, known[key], path + "." + key);
      } else if (schema.contains("additionalProperties")) {
        check(inner, schema["additionalProperties"], path + "." + key);
      } else {
        out_ += path + " must not have " + key + "\n";
      }
    }
  }

  const Json all_ = Json::parse(contents(data_path("schemas/kubernetes.json")));
  std::string out_;
};

TEST(SpecTest, SlurmScript) {
  expect_golden("slurm.sh", spec_text(job_on(kSlurmConfig)));
}

TEST(SpecTest, SlurmScriptOfLeastOptions) {
  expect_golden("slurm_least.sh", spec_text(job_on("submit: {to: slurm}")));
}

TEST(SpecTest, IndexedJob) {
  expect_golden("job.yaml", spec_text(job_on(pods("job"))));
}

TEST(SpecTest, JobSet) {
  expect_golden("jobset.yaml", spec_text(job_on(pods("jobset"))));
}

TEST(SpecTest, TrainJob) {
  expect_golden("trainjob.yaml", spec_text(job_on(pods("trainjob"))));
}

TEST(SpecTest, SageMakerRequest) {
  expect_golden("sagemaker.json", spec_text(job_on(kSageMakerConfig)));
}

TEST(SpecTest, ManifestsKeepToTheSchemasOfTheirKinds) {
  SchemaCheck check;
  for (const char* target : {"job", "jobset", "trainjob"}) {
    for (const Node& manifest : kubernetes_manifests(job_on(pods(target)))) {
      EXPECT_EQ(check.violations(manifest, manifest.find("kind")->node.scalar()->text), "")
          << target;
    }
  }
}

TEST(SpecTest, SchemasRefuseOtherKeysAndTypes) {
  Node manifest = kubernetes_manifests(job_on(pods("job"))).back();
  merge_spec(manifest, parse_recipe("x.yaml", "spec: {completions: '2', retries: 3}"));
  EXPECT_EQ(SchemaCheck().violations(manifest, "Job"),
            "Job.spec.completions is no integer\nJob.spec must not have retries\n");
}

TEST(SpecTest, ParsesBackToTheSameManifest) {
  for (const Node& manifest : kubernetes_manifests(job_on(pods("jobset")))) {
    EXPECT_EQ(to_json(parse_recipe("x.yaml", to_yaml(manifest))), to_json(manifest));
  }
}

TEST(SpecTest, NoSpecHasTheValueOfASecret) {
  for (const std::string& config : {std::string(kSlurmConfig), pods("job"), pods("trainjob")}) {
    EXPECT_EQ(spec_text(job_on(config)).find("unread"), std::string::npos);
  }
}

TEST(SpecTest, NamesBecomeDnsLabels) {
  EXPECT_EQ(dns_label("Digits_2 (new)"), "digits-2-new");
  EXPECT_EQ(dns_label("7b"), "run-7b");
  EXPECT_EQ(dns_label("äö"), "run");
  EXPECT_EQ(dns_label(std::string(80, 'a')).size(), 50u);
}

}  // namespace
}  // namespace accel::spec_test
