// Manifests of Kubernetes: Job, JobSet and TrainJob.
#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "runner/submit/spec.h"
#include "runner/submit/spec_nodes.h"

namespace accel {
namespace {

constexpr auto kContainer = "node";  // Kubeflow's name of a trainer's container and job
constexpr auto kRecipeFolder = "/etc/accel-run";
constexpr int64_t kPort = 29500;
constexpr int64_t kGraceSeconds = 120;
constexpr int kSaved = static_cast<int>(ExitCode::kInterrupted);
constexpr auto kIndexAnnotation = "batch.kubernetes.io/job-completion-index";
constexpr auto kUidLabel = "batch.kubernetes.io/controller-uid";

std::string label_of(const SubmittedJob& job) {
  return dns_label(job.name);
}

Node metadata(const SubmittedJob& job, const std::string& name, bool queued) {
  Node labels = section({{"app.kubernetes.io/name", word("accel-run")},
                         {"app.kubernetes.io/instance", word(label_of(job))}});
  if (queued && !job.section.queue.empty()) {
    merge_spec(labels, section({{"kueue.x-k8s.io/queue-name", word(job.section.queue)}}));
  }
  if (const Node* more = job.extra("labels")) merge_spec(labels, *more);
  const Node* space = job.extra("namespace");
  const Node* notes = job.extra("annotations");
  return section({{"name", word(name)},
                  {"namespace", space ? *space : Node()},
                  {"labels", labels},
                  {"annotations", notes ? *notes : Node()}});
}

/// A manifest that Kueue admits waits for it.
Node suspended(const SubmittedJob& job) {
  return job.section.queue.empty() ? Node() : yes_no(true);
}

Node deadline(const SubmittedJob& job) {
  if (!job.section.time) return {};
  return number(static_cast<int64_t>(std::ceil(job.section.time->seconds)));
}

Node recipe_map(const SubmittedJob& job) {
  return section({{"apiVersion", word("v1")},
                  {"kind", word("ConfigMap")},
                  {"metadata", metadata(job, label_of(job) + "-recipe", false)},
                  {"data", section({{kSubmittedRecipe, word(job.recipe)}})}});
}

Node from_field(const std::string& path) {
  return section({{"fieldRef", section({{"fieldPath", word(path)}})}});
}

Node variable(const std::string& name, const std::string& value) {
  return section({{"name", word(name)}, {"value", scalar_node(value, true)}});
}

Node variable_from(const std::string& name, Node source) {
  return section({{"name", word(name)}, {"valueFrom", std::move(source)}});
}

std::vector<Node> user_variables(const SubmittedJob& job) {
  std::vector<Node> list;
  for (const auto& [name, value] : job.section.env) {
    if (value.reference.empty()) {
      list.push_back(variable(name, value.value));
      continue;
    }
    const std::string secret = secret_name(value);
    const size_t slash = secret.find('/');
    list.push_back(variable_from(
        name, section({{"secretKeyRef", section({{"name", word(secret.substr(0, slash))},
                                                 {"key", word(secret.substr(slash + 1))}})}})));
  }
  return list;
}

/// The token of the rendezvous is the random UID of the Job: known to its pods only.
Node token() {
  return variable_from("ACCEL_RUN_JOB_TOKEN",
                       from_field(std::string("metadata.labels['") + kUidLabel + "']"));
}

/// `main`: the DNS name of the pod of machine 0.
Node variables(const SubmittedJob& job, const std::string& main) {
  std::vector<Node> list = user_variables(job);
  list.push_back(variable("PET_NNODES", std::to_string(job.section.nodes)));
  list.push_back(variable("PET_NPROC_PER_NODE", std::to_string(job.ranks_per_node)));
  list.push_back(variable_from("PET_NODE_RANK", from_field(std::string("metadata.annotations['") +
                                                           kIndexAnnotation + "']")));
  list.push_back(variable("PET_MASTER_ADDR", main));
  list.push_back(variable("PET_MASTER_PORT", std::to_string(kPort)));
  list.push_back(token());
  return items(std::move(list));
}

Node resources(const SubmittedJob& job) {
  const SubmitSection& options = job.section;
  Node amounts = section(
      {{"cpu", options.cpus ? number(*options.cpus) : Node()},
       {"memory",
        options.memory ? word(std::to_string(options.memory.value->bytes >> 20) + "Mi") : Node()},
       {"nvidia.com/gpu", options.gpus > 0 ? number(options.gpus) : Node()}});
  if (amounts.map()->empty()) return {};
  return section({{"requests", amounts}, {"limits", amounts}});
}

std::string volume_name(size_t index) {
  return "mount-" + std::to_string(index);
}

Node volumes(const SubmittedJob& job) {
  std::vector<Node> list = {
      section({{"name", word("recipe")},
               {"configMap", section({{"name", word(label_of(job) + "-recipe")}})}}),
      // Tensors of the loader's and the ranks' shared memory exceed the default of 64 MiB.
      section(
          {{"name", word("shared-memory")}, {"emptyDir", section({{"medium", word("Memory")}})}})};
  for (size_t i = 0; i < job.section.mounts.size(); ++i) {
    const Mount mount = *mount_of(job.section.mounts[i]);
    const bool claim = mount.source.starts_with("pvc/");
    Node volume = section({{"name", word(volume_name(i))}});
    merge_spec(volume, claim ? section({{"persistentVolumeClaim",
                                         section({{"claimName", word(mount.source.substr(4))}})}})
                             : section({{"hostPath", section({{"path", word(mount.source)}})}}));
    list.push_back(std::move(volume));
  }
  return items(std::move(list));
}

Node volume_mounts(const SubmittedJob& job) {
  const auto mount_at = [](const std::string& name, const std::string& path, bool read_only) {
    return section({{"name", word(name)},
                    {"mountPath", word(path)},
                    {"readOnly", read_only ? yes_no(true) : Node()}});
  };
  std::vector<Node> list = {mount_at("recipe", kRecipeFolder, true),
                            mount_at("shared-memory", "/dev/shm", false)};
  for (size_t i = 0; i < job.section.mounts.size(); ++i) {
    const Mount mount = *mount_of(job.section.mounts[i]);
    list.push_back(mount_at(volume_name(i), mount.target, mount.read_only));
  }
  return items(std::move(list));
}

Node command_words(const SubmittedJob& job) {
  return words(
      {"run", std::string(kRecipeFolder) + "/" + kSubmittedRecipe, "--run-dir", job.run_dir});
}

Node container(const SubmittedJob& job, const std::string& main) {
  return section({{"name", word(kContainer)},
                  {"image", word(job.section.image)},
                  {"command", words({"accel-run"})},
                  {"args", command_words(job)},
                  {"env", variables(job, main)},
                  {"resources", resources(job)},
                  {"volumeMounts", volume_mounts(job)}});
}

Node pod_spec(const SubmittedJob& job, const std::string& main, const std::string& subdomain) {
  Node spec = section(
      {{"restartPolicy", word("Never")},
       {"subdomain", subdomain.empty() ? Node() : word(subdomain)},
       {"serviceAccountName", job.section.account.empty() ? Node() : word(job.section.account)},
       {"terminationGracePeriodSeconds", number(kGraceSeconds)},
       {"containers", items({container(job, main)})},
       {"volumes", volumes(job)}});
  if (const Node* more = job.extra("pod")) merge_spec(spec, *more);
  return spec;
}

Node on_exit_codes(const char* action, const std::vector<int>& codes) {
  std::vector<Node> values;
  for (const int code : codes) values.push_back(number(code));
  return section({{"action", word(action)},
                  {"onExitCodes", section({{"containerName", word(kContainer)},
                                           {"operator", word("In")},
                                           {"values", items(std::move(values))}})}});
}

/// A pod that the cluster evicts: preemption, or a drained node.
Node on_disruption(const char* action) {
  return section({{"action", word(action)},
                  {"onPodConditions", items({section({{"type", word("DisruptionTarget")},
                                                      {"status", scalar_node("True", true)}})})}});
}

Node job_spec(const SubmittedJob& job, Node pod, std::vector<Node> rules, int64_t retries) {
  return section({{"completions", number(job.section.nodes)},
                  {"parallelism", number(job.section.nodes)},
                  {"completionMode", word("Indexed")},
                  {"backoffLimit", number(retries)},
                  {"activeDeadlineSeconds", deadline(job)},
                  {"podFailurePolicy", section({{"rules", items(std::move(rules))}})},
                  {"template",
                   section({{"metadata", section({{"labels", section({{"app.kubernetes.io/instance",
                                                                       word(label_of(job))}})}})},
                            {"spec", std::move(pod)}})}});
}

/// DNS names for the pods, also before they are ready: the rendezvous makes them so.
Node headless_service(const SubmittedJob& job) {
  return section(
      {{"apiVersion", word("v1")},
       {"kind", word("Service")},
       {"metadata", metadata(job, label_of(job), false)},
       {"spec",
        section({{"clusterIP", scalar_node("None", true)},
                 {"publishNotReadyAddresses", yes_no(true)},
                 {"selector", section({{"app.kubernetes.io/instance", word(label_of(job))}})}})}});
}

std::vector<Node> plain_job(const SubmittedJob& job) {
  const std::string name = label_of(job);
  Node spec = section({{"suspend", suspended(job)}});
  merge_spec(spec, job_spec(job, pod_spec(job, name + "-0." + name, name),
                            {on_exit_codes("FailJob", fatal_exit_codes()),
                             on_exit_codes("Ignore", {kSaved}), on_disruption("Ignore")},
                            job.section.retries * job.section.nodes));
  return {recipe_map(job), headless_service(job),
          section({{"apiVersion", word("batch/v1")},
                   {"kind", word("Job")},
                   {"metadata", metadata(job, name, true)},
                   {"spec", std::move(spec)}})};
}

/// Rule `index` of the Job's podFailurePolicy ended it.
Node on_rule(const char* name, const char* action, int index) {
  return section({{"name", word(name)},
                  {"action", word(action)},
                  {"onJobFailureReasons", words({"PodFailurePolicy"})},
                  {"onJobFailureMessagePatterns",
                   items({scalar_node(
                       "matching FailJob rule at index " + std::to_string(index) + "$", true)})}});
}

/// The end of one pod ends its Job, and JobSet restarts all pods.
std::vector<Node> job_set(const SubmittedJob& job) {
  const std::string name = label_of(job);
  const std::string main = name + "-" + kContainer + "-0-0." + name;
  const Node inner = job_spec(job, pod_spec(job, main, ""),
                              {on_exit_codes("FailJob", fatal_exit_codes()),
                               on_exit_codes("FailJob", {kSaved}), on_disruption("FailJob")},
                              0);
  Node spec = section(
      {{"suspend", suspended(job)},
       {"network", section({{"enableDNSHostnames", yes_no(true)},
                            {"subdomain", word(name)},
                            {"publishNotReadyAddresses", yes_no(true)}})},
       {"failurePolicy",
        section({{"maxRestarts", number(job.section.retries)},
                 {"restartStrategy", word("BlockingRecreate")},
                 {"rules", items({on_rule("noRestartRepairs", "FailJobSet", 0),
                                  on_rule("saved", "RestartJobSetAndIgnoreMaxRestarts", 1),
                                  on_rule("evicted", "RestartJobSetAndIgnoreMaxRestarts", 2)})}})},
       {"replicatedJobs", items({section({{"name", word(kContainer)},
                                          {"replicas", number(1)},
                                          {"template", section({{"spec", inner}})}})})}});
  return {recipe_map(job), section({{"apiVersion", word("jobset.x-k8s.io/v1alpha2")},
                                    {"kind", word("JobSet")},
                                    {"metadata", metadata(job, name, true)},
                                    {"spec", std::move(spec)}})};
}

/// The patches that a TrainJob may make to the pods of its runtime.
Node runtime_patches(const SubmittedJob& job) {
  Node pod = section(
      {{"serviceAccountName", job.section.account.empty() ? Node() : word(job.section.account)},
       {"volumes", volumes(job)},
       {"containers",
        items({section({{"name", word(kContainer)}, {"volumeMounts", volume_mounts(job)}})})}});
  if (const Node* more = job.extra("pod")) merge_spec(pod, *more);
  const auto in_spec = [](Node inner) {
    return section({{"spec", section({{"template", std::move(inner)}})}});
  };
  const Node jobs = items(
      {section({{"name", word(kContainer)}, {"template", in_spec(section({{"spec", pod}}))}})});
  return items({section(
      {{"manager", word("accel-run.dev/submit")},
       {"trainingRuntimeSpec",
        section({{"template", section({{"spec", section({{"replicatedJobs", jobs}})}})}})}})});
}

/// Kubeflow sets PET_* itself.
std::vector<Node> train_job(const SubmittedJob& job) {
  const Node* runtime = job.extra("runtime");
  std::vector<Node> env = user_variables(job);
  env.push_back(token());
  Node spec =
      section({{"suspend", suspended(job)},
               {"activeDeadlineSeconds", deadline(job)},
               {"runtimeRef", section({{"name", runtime ? *runtime : word("torch-distributed")}})},
               {"trainer", section({{"image", word(job.section.image)},
                                    {"command", words({"accel-run"})},
                                    {"args", command_words(job)},
                                    {"env", items(std::move(env))},
                                    {"numNodes", number(job.section.nodes)},
                                    {"numProcPerNode", number(job.ranks_per_node)},
                                    {"resourcesPerNode", resources(job)}})},
               {"runtimePatches", runtime_patches(job)}});
  return {recipe_map(job), section({{"apiVersion", word("trainer.kubeflow.org/v1alpha1")},
                                    {"kind", word("TrainJob")},
                                    {"metadata", metadata(job, label_of(job), true)},
                                    {"spec", std::move(spec)}})};
}

}  // namespace

std::vector<Node> kubernetes_manifests(const SubmittedJob& job) {
  if (job.section.to == SubmitTarget::kJob) return plain_job(job);
  return job.section.to == SubmitTarget::kJobSet ? job_set(job) : train_job(job);
}

}  // namespace accel
