#include "runner/submit/submit_section.h"

#include <gtest/gtest.h>

#include "submit_jobs.h"

namespace accel::submit_section_test {
namespace {

/// "message | hint" of each error.
std::string errors_of(const std::string& yaml) {
  Diagnostics problems;
  submit_section(yaml, problems);
  std::string out;
  for (const Diagnostic& each : problems.list()) {
    out += (out.empty() ? "" : "\n") + each.message + " | " + each.hint;
  }
  return out;
}

struct Case {
  const char* name;
  std::string yaml;
  const char* errors;
};

std::string job_with(const std::string& more) {
  return "submit: {to: job, image: x, " + more + "}";
}

const Case kCases[] = {
    {"Least", "submit: {to: slurm}", ""},
    {"NoTarget", "submit: {nodes: 2}",
     "'to' is missing | add 'to': Scheduler. slurm: an sbatch script; job, jobset, trainjob: a "
     "Job, "
     "JobSet or Kubeflow TrainJob of Kubernetes; sagemaker: a training job of Amazon."},
    {"NoImage", "submit: {to: jobset, mounts: ['pvc/a:/work']}",
     "'submit.image' is missing | give a container image that has accel-run, such as one built "
     "from the Dockerfile"},
    {"NoFolder", job_with("mounts: ['pvc/a:/data:ro']"),
     "no volume for the run's folder: checkpoints would end with the pod | add a writable mount, "
     "such as pvc/CLAIM:/work"},
    {"NoMount", job_with("mounts: ['pvc/a']"),
     "'pvc/a' is not a mount | write SOURCE:TARGET or SOURCE:TARGET:ro with an absolute TARGET"},
    {"MountOfSlurm", "submit: {to: slurm, mounts: ['/a:/b']}",
     "'submit.mounts' has no effect on Slurm without 'submit.image' | leave it out, or set 'image' "
     "for a container"},
    {"SourceOfPod", job_with("mounts: ['s3://a:/work']"),
     "'s3://a:/work' has no source that Kubernetes mounts | write pvc/CLAIM:TARGET, or "
     "/PATH:TARGET for a folder of the node"},
    {"OwnVariable", "submit: {to: slurm, env: {PET_NNODES: 3}}",
     "'submit.env' must not set 'PET_NNODES' | accel-run sets it for its rendezvous"},
    {"SecretWithoutKey", job_with("mounts: ['pvc/a:/work'], env: {KEY: '${secret:KEY}'}"),
     "'submit.env.KEY' names no key of a Secret: 'KEY' | write ${secret:SECRET/KEY}, the names of "
     "a Secret of the namespace and its key"},
    {"SecretInPlainText", "submit: {to: slurm, env: {HF_TOKEN: hf_123}}",
     "'submit.env.HF_TOKEN' is a secret in plain text | write ${secret:...}, so that no spec has "
     "it"},
    {"SecretInText", "submit: {to: slurm, env: {KEY: 'a ${secret:KEY}'}}",
     "the secret in 'submit.env.KEY' has other text around it | make the value exactly "
     "${secret:NAME}"},
    {"SecretOfAnotherName", "submit: {to: slurm, env: {KEY: '${secret:OTHER}'}}",
     "'submit.env.KEY' is the secret of another name: 'OTHER' | write ${secret:KEY}, and export it "
     "before 'accel-run submit'"},
    {"OptionOfSbatch", "submit: {to: slurm, extra: {nodes: 4}}",
     "'submit.extra' must not set 'nodes' | set 'submit.nodes'"},
    {"ListForSbatch", "submit: {to: slurm, extra: {exclude: [a, b]}}",
     "'exclude' wants a value of sbatch, not a list | write option: value, or option: true for one "
     "without a value"},
    {"ExtraOfPod", job_with("mounts: ['pvc/a:/work'], extra: {qos: high}"),
     "unknown option 'qos' | 'submit.extra' has 'namespace', 'labels', 'annotations', 'pod' for "
     "this target"},
    {"ShortTime", "submit: {to: slurm, time: 5 s}", "'time' must be at least a minute, not 5 s | "},
    {"TimeInSteps", "submit: {to: slurm, time: 90}",
     "'time' wants a time such as '4 h' or '1-02:30:00' or 'none', not '90' | "},
    {"NoMemory", "submit: {to: slurm, memory: 0}", "'memory' must be at least 1 MiB, not 0 | "},
    {"VariableName", "submit: {to: slurm, env: {'A B': x}}",
     "'A B' in 'submit.env' is not the name of a variable | write letters, digits and underscores, "
     "without a digit at the start"},
    {"LineBreak", "submit: {to: slurm, queue: \"a\\nb\"}",
     "'submit.queue' has a line break or another control character | leave it out"},
    {"NoOptionOfSbatch", "submit: {to: slurm, extra: {'q os': x}}",
     "'q os' is not an option of sbatch | write a long option without its dashes, such as qos"},
    {"SwitchOfSbatch", "submit: {to: slurm, extra: {exclusive: false}}",
     "'exclusive' wants a value of sbatch, not 'false' | write option: value, or option: true for "
     "one "
     "without a value"},
    {"SameTarget", job_with("mounts: ['pvc/a:/work', 'pvc/b:/work']"),
     "'pvc/b:/work' mounts at '/work', as another volume does | give each volume a folder of its "
     "own"},
    {"OwnTarget", job_with("mounts: ['pvc/a:/dev/shm']"),
     "'pvc/a:/dev/shm' mounts at '/dev/shm', as another volume does | give each volume a folder of "
     "its own"},
    {"NoClaim", job_with("mounts: ['pvc/:/work']"),
     "'pvc/:/work' has no source that Kubernetes mounts | write pvc/CLAIM:TARGET, or /PATH:TARGET "
     "for a folder of the node"},
    {"SecretWithEmptyKey", job_with("mounts: ['pvc/a:/work'], env: {KEY: '${secret:s/}'}"),
     "'submit.env.KEY' names no key of a Secret: 's/' | write ${secret:SECRET/KEY}, the names of a "
     "Secret of the namespace and its key"},
    {"ListOfLabels", job_with("mounts: ['pvc/a:/work'], extra: {labels: [a], pod: 3}"),
     "'submit.extra.labels' wants a section of texts, not a list | write name: value\n"
     "'submit.extra.pod' wants a section, not '3' | write field: value"},
    {"ValuesOfSageMaker",
     "submit: {to: sagemaker, image: x, account: a, retries: 31, cpus: 4, extra: {instance_type: "
     "m5.large, output: b, volume_size: big, region: [a]}}",
     "'submit.extra.region' wants a text, not a list | write one value\n"
     "'submit.cpus' has no effect on SageMaker | leave it out: 'submit.extra.instance_type' "
     "decides\n"
     "SageMaker restarts at most 30 times, not 31 | lower 'submit.retries'\n"
     "'submit.extra.instance_type' wants an instance type such as ml.g5.12xlarge, not 'm5.large' | "
     "\n"
     "'submit.extra.output' wants an S3 prefix such as s3://bucket/runs, not 'b' | \n"
     "'submit.extra.volume_size' wants a whole number of GB, not 'big' | "},
    {"SourceOfSageMaker",
     "submit: {to: sagemaker, image: x, account: a, mounts: ['/a:/opt/ml/input/data/a/b'], extra: "
     "{instance_type: ml.m5.large, output: s3://b}}",
     "'/a:/opt/ml/input/data/a/b' has no source that SageMaker mounts | write "
     "s3://BUCKET/PREFIX:TARGET, or fsx/FILE_SYSTEM/PATH:TARGET\n"
     "SageMaker cannot mount at '/opt/ml/input/data/a/b' | give a target "
     "/opt/ml/input/data/CHANNEL"},
    {"SageMaker", "submit: {to: sagemaker, nodes: 2, image: x}",
     "'submit.extra.instance_type' is missing | give the machines, such as ml.g5.12xlarge\n"
     "'submit.extra.output' is missing | give the S3 prefix for models and checkpoints, such as "
     "s3://bucket/runs\n"
     "'submit.account' is missing | give the ARN of the execution role\n"
     "2 nodes share the run's folder, and no file system is mounted | add "
     "fsx/FILE_SYSTEM/PATH:/opt/ml/input/data/shared to 'submit.mounts'"},
};

class SubmitSectionTest : public testing::TestWithParam<Case> {};

TEST_P(SubmitSectionTest, ReportsItsErrors) {
  EXPECT_EQ(errors_of(GetParam().yaml), GetParam().errors);
}

INSTANTIATE_TEST_SUITE_P(Cases, SubmitSectionTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(SubmitSectionTest, ReadsTimesOfSlurm) {
  const std::pair<const char*, double> cases[] = {{"1-02:03:04", 93784}, {"26:03:04", 93784},
                                                  {"'26:03:04'", 93784}, {"1-2", 93600},
                                                  {"2-00:30", 174600},   {"90 min", 5400}};
  for (const auto& [text, seconds] : cases) {
    Diagnostics problems;
    const auto section =
        submit_section(std::string("submit: {to: slurm, time: ") + text + "}", problems);
    EXPECT_TRUE(problems.list().empty()) << text;
    ASSERT_TRUE(section.time) << text;
    EXPECT_EQ(section.time->seconds, seconds) << text;
  }
}

TEST(SubmitSectionTest, SplitsMounts) {
  const auto mount = mount_of("s3://bucket/a:/data/b:ro");
  ASSERT_TRUE(mount);
  EXPECT_EQ(mount->source, "s3://bucket/a");
  EXPECT_EQ(mount->target, "/data/b");
  EXPECT_TRUE(mount->read_only);
  EXPECT_FALSE(mount_of("a:b"));
}

}  // namespace
}  // namespace accel::submit_section_test
