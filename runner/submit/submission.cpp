#include "runner/submit/submission.h"

#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "runner/launch/run_program.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr auto kRecord = "jobs.jsonl";

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char buffer[32];
  std::strftime(buffer, sizeof buffer, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return buffer;
}

std::string target_name(SubmitTarget to) {
  return Codec<SubmitTarget>::write(to).scalar()->text;
}

/// Runs the client. Throws Error with its last line when it refuses.
std::string ask(const std::vector<std::string>& words) {
  const ProgramEnd end = run_program(words);
  if (end.exit_code == 0) return trimmed(end.output);
  const std::string why = trimmed(end.errors.empty() ? end.output : end.errors);
  throw Error(ExitCode::kOther,
              text("'{}' refused the job with exit code {}: {}", words.front(), end.exit_code,
                   why.empty() ? "no message" : why),
              "correct the section 'submit', or hand over the printed spec by hand");
}

std::string namespace_of(const SubmittedJob& job) {
  const Node::Entry* entry = job.section.extra.find("namespace");
  return entry && entry->node.scalar() ? entry->node.scalar()->text : "";
}

std::vector<std::string> in_namespace(std::vector<std::string> words, const std::string& space) {
  if (!space.empty()) words.insert(words.end(), {"--namespace", space});
  return words;
}

Submission to_slurm(const SubmittedJob& job, const std::string& path) {
  const std::string answer = ask({"sbatch", "--parsable", path});
  Submission out;
  out.id = answer.substr(0, answer.find(';'));
  out.log = job.run_dir + "/" + kSubmitFolder + "/slurm-" + out.id + ".out";
  return out;
}

/// Whether `kubectl apply` answers "job.batch/NAME unchanged".
bool is_unchanged(const std::string& answer, const std::string& kind, const std::string& name) {
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kind + ".") && line.ends_with("/" + name + " unchanged")) return true;
  }
  return false;
}

Submission to_kubernetes(const SubmittedJob& job, const std::string& path) {
  Submission out;
  out.space = namespace_of(job);
  const std::string answer = ask(in_namespace({"kubectl", "apply", "-f", path}, out.space));
  const std::string name = dns_label(job.name);
  out.id = target_name(job.section.to) + "/" + name;
  if (is_unchanged(answer, target_name(job.section.to), name)) {
    throw Error(ExitCode::kOther,
                text("'{}' is in the cluster already and does not start again", out.id),
                text("delete it first: {}",
                     joined(in_namespace({"kubectl", "delete", out.id}, out.space), " ")));
  }
  out.log = joined(in_namespace({"kubectl", "logs", "-l", "app.kubernetes.io/instance=" + name,
                                 "--prefix", "--tail=-1"},
                                out.space),
                   " ");
  return out;
}

std::vector<std::string> aws_words(const Node& extra, std::vector<std::string> words) {
  for (const char* option : {"profile", "region"}) {
    const Node::Entry* entry = extra.find(option);
    if (entry && entry->node.scalar()) {
      words.insert(words.end(), {std::string("--") + option, entry->node.scalar()->text});
    }
  }
  return words;
}

Submission to_sagemaker(const SubmittedJob& job, const std::string& path,
                        const std::string& folder) {
  const Node& extra = job.section.extra;
  const auto request = Json::parse(spec_text(job));
  const std::string recipe = request["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"];
  ask(aws_words(
      extra, {"aws", "s3", "cp", folder + "/" + kSubmitFolder + "/" + kSubmittedRecipe, recipe}));
  ask(aws_words(extra,
                {"aws", "sagemaker", "create-training-job", "--cli-input-json", "file://" + path}));
  Submission out;
  out.id = request["TrainingJobName"];
  out.log = joined(aws_words(extra, {"aws", "logs", "tail", "/aws/sagemaker/TrainingJobs",
                                     "--log-stream-name-prefix", out.id}),
                   " ");
  return out;
}

void record(const Submission& submission, const std::string& folder) {
  const Json line = {{"to", target_name(submission.to)},
                     {"id", submission.id},
                     {"time", submission.time},
                     {"log", submission.log},
                     {"namespace", submission.space}};
  const std::string path = folder + "/" + kSubmitFolder + "/" + kRecord;
  std::ofstream out(path, std::ios::app);
  out << line.dump() << "\n";
  out.flush();
  if (!out) throw IoError(text("cannot write '{}'", path), "the job was submitted");
}

Submission read_line(const std::string& text, const std::string& path) try {
  const Json line = Json::parse(text);
  Submission out;
  for (const auto& [value, name] : EnumNames<SubmitTarget>::kValues) {
    if (line.at("to") == name) out.to = value;
  }
  out.id = line.at("id");
  out.time = line.at("time");
  out.log = line.at("log");
  out.space = line.at("namespace");
  return out;
} catch (const Json::exception&) {
  throw DataError(accel::text("'{}' has a damaged line: {}", path, text), "delete the line");
}

/// The first word of the answer; "" when the client fails or has none.
std::string first_word(const std::vector<std::string>& words) {
  const ProgramEnd end = run_program(words, 30);
  const std::string answer = end.exit_code == 0 ? trimmed(end.output) : "";
  return answer.substr(0, answer.find_first_of(" \n+"));
}

/// slurmctld keeps ended jobs for some minutes; slurmdbd, which a cluster need not have, for ever.
std::string slurm_state(const std::string& id) {
  const std::string queued =
      first_word({"squeue", "--noheader", "--states=all", "--format=%T", "--jobs", id});
  if (!queued.empty()) return queued;
  if (!has_program("sacct")) return "not in the queue";
  const std::string ended = first_word(
      {"sacct", "--noheader", "--parsable2", "--allocations", "--format=State", "-j", id});
  return ended.empty() ? "not in the queue" : ended;
}

std::string kubernetes_state(const Submission& submission) {
  const char* const last = "jsonpath={.status.conditions[-1:].type}";
  const std::string ended = first_word(
      in_namespace({"kubectl", "get", submission.id, "--output", last}, submission.space));
  if (!ended.empty()) return ended;
  const ProgramEnd found = run_program(
      in_namespace({"kubectl", "get", submission.id, "--output", "name"}, submission.space), 30);
  return found.exit_code == 0 ? "Running" : "not found";
}

std::string sagemaker_state(const std::string& id) {
  return first_word({"aws", "sagemaker", "describe-training-job", "--training-job-name", id,
                     "--query", "TrainingJobStatus", "--output", "text"});
}

}  // namespace

std::string client_of(SubmitTarget to) {
  if (to == SubmitTarget::kSlurm) return "sbatch";
  return to == SubmitTarget::kSageMaker ? "aws" : "kubectl";
}

std::string write_spec(const SubmittedJob& job, const std::string& folder) {
  const std::string inner = std::string(kSubmitFolder) + "/";
  write_file_with_folder(folder + "/" + inner + kSubmittedRecipe, job.recipe);
  const std::string path = folder + "/" + inner + spec_file(job.section.to);
  write_file_with_folder(path, spec_text(job));
  return path;
}

Submission hand_over(const SubmittedJob& job, const std::string& path, const std::string& folder) {
  Submission out = job.section.to == SubmitTarget::kSlurm       ? to_slurm(job, path)
                   : job.section.to == SubmitTarget::kSageMaker ? to_sagemaker(job, path, folder)
                                                                : to_kubernetes(job, path);
  out.to = job.section.to;
  out.time = now_text();
  record(out, folder);
  return out;
}

std::vector<Submission> submissions_of(const std::string& run_dir) {
  const std::string path = run_dir + "/" + kSubmitFolder + "/" + kRecord;
  std::ifstream in(path);
  std::vector<Submission> out;
  for (std::string line; std::getline(in, line);) {
    if (!trimmed(line).empty()) out.push_back(read_line(line, path));
  }
  return out;
}

std::string state_of(const Submission& submission) {
  const std::string client =
      submission.to == SubmitTarget::kSlurm ? "squeue" : client_of(submission.to);
  if (!has_program(client)) return text("unknown: no '{}' on PATH", client);
  if (submission.to == SubmitTarget::kSlurm) return slurm_state(submission.id);
  const std::string state = submission.to == SubmitTarget::kSageMaker
                                ? sagemaker_state(submission.id)
                                : kubernetes_state(submission);
  return state.empty() ? text("unknown: '{}' does not answer", client) : state;
}

}  // namespace accel
