#include "runner/submit/spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>

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

/// Checks values against schemas/NAME.json, the parts of the published schemas that specs use.
/// Their keywords: type, properties, required, items, enum, pattern, maxLength, maxItems, minimum,
/// maximum, additionalProperties and $ref. `published` names the versions.
class SchemaCheck {
 public:
  explicit SchemaCheck(const std::string& name)
      : all_(Json::parse(contents(data_path("schemas/" + name + ".json")))) {}

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
      return;
    }
    check_limits(value, schema, path);
    if (value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) {
        check(value[i], schema.at("items"), path + "[" + std::to_string(i) + "]");
      }
    } else if (value.is_object()) {
      check_object(value, schema, path);
    }
  }

  void check_limits(const Json& value, const Json& schema, const std::string& path) {
    const Json words = schema.value("enum", Json::array({value}));
    bool fits = std::find(words.begin(), words.end(), value) != words.end();
    if (value.is_string()) {
      const std::string text = value;
      fits = fits && text.size() <= schema.value("maxLength", text.size()) &&
             std::regex_match(text, std::regex(schema.value("pattern", std::string("[^]*"))));
    } else if (value.is_number_integer()) {
      const int64_t number = value;
      fits = fits && number >= schema.value("minimum", number) &&
             number <= schema.value("maximum", number);
    } else if (value.is_array()) {
      fits = fits && value.size() <= schema.value("maxItems", value.size());
    }
    if (!fits) out_ += path + " is " + value.dump() + "\n";
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

  const Json all_;
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
  SchemaCheck check("kubernetes");
  for (const char* target : {"job", "jobset", "trainjob"}) {
    for (const Node& manifest : kubernetes_manifests(job_on(pods(target)))) {
      EXPECT_EQ(check.violations(manifest, manifest.find("kind")->node.scalar()->text), "")
          << target;
    }
  }
}

TEST(SpecTest, SageMakerRequestKeepsToItsSchema) {
  SchemaCheck check("sagemaker");
  EXPECT_EQ(check.violations(sagemaker_request(job_on(kSageMakerConfig)), "CreateTrainingJob"), "");
  Node request = sagemaker_request(job_on(kSageMakerConfig));
  merge_spec(request, parse_recipe("x.yaml",
                                   "RoleArn: trainer\nRetryStrategy: "
                                   "{MaximumRetryAttempts: 31}\nTrainingJobName: a_b"));
  EXPECT_EQ(check.violations(request, "CreateTrainingJob"),
            "CreateTrainingJob.RetryStrategy.MaximumRetryAttempts is 31\n"
            "CreateTrainingJob.RoleArn is \"trainer\"\n"
            "CreateTrainingJob.TrainingJobName is \"a_b\"\n");
}

TEST(SpecTest, SchemasRefuseOtherKeysAndTypes) {
  Node manifest = kubernetes_manifests(job_on(pods("job"))).back();
  merge_spec(manifest, parse_recipe("x.yaml", "spec: {completions: '2', retries: 3}"));
  EXPECT_EQ(SchemaCheck("kubernetes").violations(manifest, "Job"),
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
}

TEST(SpecTest, LongNamesBecomeShorterOnes) {
  const std::string name(64, 'a');
  EXPECT_EQ(dns_label(name), std::string(35, 'a') + "-fdd30307");
  EXPECT_NE(dns_label(name), dns_label(name + 'b'));
  EXPECT_EQ(dns_label(std::string(44, 'a')), std::string(44, 'a'));
  // JobSet refuses jobs whose pods would have names of more than 63 characters.
  EXPECT_LE((dns_label(name) + "-node-0-65535-abcde").size(), 63u);
}

}  // namespace
}  // namespace accel::spec_test
