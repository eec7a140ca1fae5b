// Jobs that the tests of specs share.
#pragma once

#include <string>

#include "core/recipe/parse.h"
#include "runner/submit/read_submit.h"
#include "runner/submit/spec.h"

namespace accel {

/// The section of a config's text, with `${secret:...}` as composing leaves it.
inline SubmitSection submit_section(const std::string& yaml, Diagnostics& problems) {
  Node tree = parse_recipe("cluster.yaml", yaml);
  const auto keep_secrets = [](auto& self, Node& node) -> void {
    if (Scalar* scalar = node.scalar();
        scalar && scalar->text.find("${secret:") != std::string::npos) {
      scalar->secret = std::make_shared<const std::string>("unread");
    }
    if (node.map()) {
      for (Node::Entry& entry : *node.map()) self(self, entry.node);
    }
  };
  keep_secrets(keep_secrets, tree);
  return read_submit(tree.find("submit")->node, problems);
}

inline SubmittedJob job_on(const std::string& yaml) {
  Diagnostics problems;
  SubmittedJob job;
  job.section = submit_section(yaml, problems);
  problems.check();
  job.name = "Digits 2";
  job.recipe = "model: mlp\ntrain: {until: 3 steps}\n";
  job.folder = "/home/ada/my project";
  job.run_dir = job.section.to == SubmitTarget::kSlurm ? "runs/Digits 2"
                : job.section.to == SubmitTarget::kSageMaker
                    ? "/opt/ml/input/data/shared/runs/Digits 2"
                    : "/work/runs/Digits 2";
  job.stamp = "20261126-104000";
  job.ranks_per_node = job.section.gpus > 0 ? job.section.gpus : 2;
  return job;
}

constexpr auto kSlurmConfig = R"(
submit:
  to: slurm
  nodes: 2
  gpus: 8
  cpus: 64
  memory: 512 GiB
  time: 28 h
  queue: gpu
  account: vision
  image: registry.example/accel-run:0.1
  mounts: ['/data:/data:ro']
  env: {NCCL_DEBUG: WARN, GREETING: "it's here", WANDB_API_KEY: '${secret:WANDB_API_KEY}'}
  retries: 5
  extra: {qos: high, exclusive: true, comment: 'two words'}
)";
constexpr auto kPods = R"(
  nodes: 2
  gpus: 4
  cpus: 16
  memory: 64 GiB
  time: 4 h
  image: registry.example/accel-run:0.1
  queue: team-a
  account: trainer
  mounts: ['pvc/runs:/work', 'pvc/data:/data:ro', '/fast:/fast']
  env: {NCCL_DEBUG: WARN, DEBUG: 'yes', WANDB_API_KEY: '${secret:wandb/api-key}'}
  extra:
    namespace: research
    labels: {team: vision}
    pod: {nodeSelector: {gpu: h100}, tolerations: [{key: gpu, operator: Exists}]}
)";
constexpr auto kSageMakerConfig = R"(
submit:
  to: sagemaker
  nodes: 2
  gpus: 8
  time: 4 h
  image: 123.dkr.ecr.eu-west-1.amazonaws.com/accel-run:0.1
  account: 'arn:aws:iam::123456789012:role/trainer'
  mounts: ['s3://bucket/digits:/opt/ml/input/data/train', 'fsx/fs-0123456789a/runs:/opt/ml/input/data/shared']
  env: {NCCL_DEBUG: WARN}
  extra:
    instance_type: ml.p4d.24xlarge
    output: s3://bucket/runs/
    metrics: {loss: 'loss ([0-9.]+)'}
    request: {EnableManagedSpotTraining: true, StoppingCondition: {MaxWaitTimeInSeconds: 28800}}
)";

inline std::string pods(const std::string& to) {
  return "\nsubmit:\n  to: " + to + std::string(kPods);
}

}  // namespace accel
