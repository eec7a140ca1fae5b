// The request of a SageMaker training job.
#include <algorithm>

#include "runner/submit/spec.h"
#include "runner/submit/spec_nodes.h"

namespace accel {
namespace {

constexpr int64_t kDefaultVolume = 100;  // GB

std::string extra_text(const SubmittedJob& job, const char* key) {
  const Node* node = job.extra(key);
  return node && node->scalar() ? node->scalar()->text : "";
}

std::string output_prefix(const SubmittedJob& job) {
  std::string prefix = extra_text(job, "output");
  while (prefix.ends_with('/')) prefix.pop_back();
  return prefix;
}

Node s3_channel(const std::string& name, const std::string& uri) {
  return section({{"ChannelName", word(name)},
                  {"DataSource",
                   section({{"S3DataSource",
                             section({{"S3DataType", word("S3Prefix")},
                                      {"S3Uri", word(uri)},
                                      {"S3DataDistributionType", word("FullyReplicated")}})}})}});
}

/// "fsx/fs-0123/path".
Node file_system_channel(const std::string& name, const Mount& mount) {
  const std::string rest = mount.source.substr(4);
  const size_t slash = rest.find('/');
  return section({{"ChannelName", word(name)},
                  {"DataSource",
                   section({{"FileSystemDataSource",
                             section({{"FileSystemId", word(rest.substr(0, slash))},
                                      {"FileSystemType", word("FSxLustre")},
                                      {"FileSystemAccessMode", word(mount.read_only ? "ro" : "rw")},
                                      {"DirectoryPath",
                                       word(slash == rest.npos ? "/" : rest.substr(slash))}})}})}});
}

Node channels(const SubmittedJob& job) {
  std::vector<Node> list = {
      s3_channel("recipe", output_prefix(job) + "/" + job.name + "/" + kSubmittedRecipe)};
  for (const std::string& text : job.section.mounts) {
    const Mount mount = *mount_of(text);
    const std::string name = mount.target.substr(mount.target.rfind('/') + 1);
    list.push_back(mount.source.starts_with("s3://") ? s3_channel(name, mount.source)
                                                     : file_system_channel(name, mount));
  }
  return items(std::move(list));
}

/// Lines of the program's log that SageMaker records as metrics.
Node metrics(const SubmittedJob& job) {
  const Node* given = job.extra("metrics");
  if (!given || !given->map()) return {};
  std::vector<Node> list;
  for (const Node::Entry& entry : *given->map()) {
    list.push_back(
        section({{"Name", word(entry.key)},
                 {"Regex", word(entry.node.scalar() ? entry.node.scalar()->text : "")}}));
  }
  return items(std::move(list));
}

Node environment(const SubmittedJob& job) {
  Node::Map map;
  for (const auto& [name, value] : job.section.env) map.push_back({name, {}, word(value.value)});
  return map.empty() ? Node() : Node(std::move(map), {});
}

}  // namespace

Node sagemaker_request(const SubmittedJob& job) {
  const SubmitSection& options = job.section;
  const std::string base = extra_text(job, "base_job_name");
  const auto volume = extra_text(job, "volume_size");
  Node request = section(
      {{"TrainingJobName", word(dns_label(base.empty() ? job.name : base, 46) + "-" + job.stamp)},
       {"RoleArn", word(options.account)},
       {"AlgorithmSpecification",
        section({{"TrainingImage", word(options.image)},
                 {"TrainingInputMode", word("File")},
                 {"ContainerEntrypoint", words({"accel-run"})},
                 {"ContainerArguments",
                  words({"run", std::string("/opt/ml/input/data/recipe/") + kSubmittedRecipe,
                         "--run-dir", job.run_dir})},
                 {"MetricDefinitions", metrics(job)}})},
       {"InputDataConfig", channels(job)},
       {"OutputDataConfig", section({{"S3OutputPath", word(output_prefix(job))}})},
       {"CheckpointConfig",
        section({{"S3Uri", word(output_prefix(job) + "/" + job.name + "/checkpoints")},
                 {"LocalPath", word("/opt/ml/checkpoints")}})},
       {"ResourceConfig", section({{"InstanceType", word(extra_text(job, "instance_type"))},
                                   {"InstanceCount", number(options.nodes)},
                                   {"VolumeSizeInGB", volume.empty() ? number(kDefaultVolume)
                                                                     : scalar_node(volume)}})},
       {"StoppingCondition", options.time
                                 ? section({{"MaxRuntimeInSeconds",
                                             number(static_cast<int64_t>(options.time->seconds))}})
                                 : section({{"MaxRuntimeInSeconds", number(86400)}})},
       {"RetryStrategy", options.retries > 0
                             ? section({{"MaximumRetryAttempts", number(options.retries)}})
                             : Node()},
       {"Environment", environment(job)}});
  if (const Node* more = job.extra("request")) merge_spec(request, *more);
  return request;
}

}  // namespace accel
