// Handing a job to its scheduler, and the record of submissions in the run's folder.
#pragma once

#include <string>
#include <vector>

#include "runner/submit/spec.h"

namespace accel {

/// The program that takes jobs for the target: sbatch, kubectl or aws.
std::string client_of(SubmitTarget to);

/// A line of RUN/submit/jobs.jsonl.
struct Submission {
  SubmitTarget to = SubmitTarget::kSlurm;
  std::string id;     ///< of the scheduler: a number, "jobset/digits" or a job's name
  std::string time;   ///< UTC, "2026-11-26T10:40:00Z"
  std::string log;    ///< the file, or the command that prints it
  std::string space;  ///< namespace of Kubernetes; empty: the default
};

/// Writes the spec and the frozen recipe into the run's folder on this machine. Returns the path of
/// the spec. Throws IoError.
std::string write_spec(const SubmittedJob& job, const std::string& folder);

/// Submits the spec at `path` and records it in `folder`. Throws Error with the client's message.
Submission hand_over(const SubmittedJob& job, const std::string& path, const std::string& folder);

/// The submissions of a run, oldest first; empty without any. Throws DataError for a damaged
/// record.
std::vector<Submission> submissions_of(const std::string& run_dir);

/// The state in the scheduler's word, such as RUNNING or Complete; "unknown: why" when it cannot be
/// asked.
std::string state_of(const Submission& submission);

}  // namespace accel
