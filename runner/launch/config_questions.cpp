#include "runner/launch/config_questions.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <iostream>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "core/error.h"
#include "core/scalar.h"

namespace accel {
namespace {

constexpr int64_t kMostAsked = 65536;

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

class Questions {
 public:
  Questions(std::istream& in, std::ostream& out) : in_(in), out_(out) {}

  /// Asks until `wrong` has nothing to say against the answer.
  std::string text(const std::string& question, const std::string& standard,
                   const std::function<std::string(const std::string&)>& wrong) {
    for (;;) {
      out_ << question << (standard.empty() ? ": " : " [" + standard + "]: ") << std::flush;
      std::string answer;
      if (!std::getline(in_, answer)) {
        out_ << '\n';
        throw Error(ExitCode::kRecipe, "the answers ended before the last question",
                    "answer all of them; nothing was written");
      }
      answer = trimmed(answer);
      if (answer.empty()) answer = standard;
      const std::string objection = wrong(answer);
      if (objection.empty()) return answer;
      out_ << "  " << objection << '\n';
    }
  }

  int64_t number(const std::string& question, std::optional<int64_t> standard, int64_t least,
                 int64_t most, int64_t multiple_of = 1) {
    const auto wrong = [&](const std::string& answer) -> std::string {
      const auto value = parse_integer({answer}).value;
      if (!value || *value < least || *value > most) {
        return "a number from " + std::to_string(least) + " to " + std::to_string(most);
      }
      if (*value % multiple_of == 0) return "";
      return "a multiple of " + std::to_string(multiple_of) + ", the number of machines";
    };
    const std::string proposed = standard ? std::to_string(*standard) : "";
    return *parse_integer({text(question, proposed, wrong)}).value;
  }

  void tell(const std::string& remark) { out_ << "  " << remark << '\n'; }

  bool yes(const std::string& question) {
    const auto wrong = [](std::string answer) -> std::string {
      return is_yes(answer) || is_no(answer) ? "" : "yes or no";
    };
    return is_yes(text(question + " (yes/no)", "no", wrong));
  }

 private:
  static std::string lower(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
  }
  static bool is_yes(const std::string& answer) {
    return lower(answer) == "yes" || lower(answer) == "y";
  }
  static bool is_no(const std::string& answer) {
    return lower(answer) == "no" || lower(answer) == "n";
  }

  std::istream& in_;
  std::ostream& out_;
};

std::string no_address(const std::string& answer) {
  if (answer.empty()) return "an address or a name, such as 10.0.0.1";
  const bool blank = answer.find_first_of(" \t'\"") != answer.npos;
  return blank ? "one address or name, without blanks and quotes" : "";
}

std::string no_precision(const std::string& answer) {
  return answer == "no" || answer == "fp16" || answer == "bf16" ? "" : "no, fp16 or bf16";
}

/// What is wrong with a list of GPUs for so many processes: each has one of its own.
std::string no_gpus(const std::string& answer, int64_t processes) {
  if (answer == "all") return "";
  std::set<int64_t> ids;
  std::istringstream words(answer);
  int64_t count = 0;
  for (std::string word; std::getline(words, word, ','); ++count) {
    const auto id = parse_integer({trimmed(word)}).value;
    if (!id || *id < 0) return "all, or numbers from 0 such as 0,1";
    if (!ids.insert(*id).second) return "each number once";
  }
  if (count >= processes) return "";
  return "at least " + std::to_string(processes) + " of them: one for each process of this machine";
}

void ask_gpus(Questions& questions, ConfigAnswers& answers) {
  const int64_t here = answers.num_processes / answers.num_machines;
  const std::string ids =
      questions.text("GPUs of this machine to use, by number", "all",
                     [&](const std::string& answer) { return no_gpus(answer, here); });
  answers.gpu_ids.clear();
  for (const char c : ids) {
    if (c != ' ' && c != '\t') answers.gpu_ids += c;
  }
}

/// What this machine has, times the machines; nothing where that is too few.
std::optional<int64_t> proposed_gpus(Questions& questions, int64_t machines, int64_t gpus) {
  if (gpus == 0) questions.tell("this machine has no GPU: the config will be for one that has");
  const int64_t all = gpus * machines;
  if (gpus > 0 && all < 2) questions.tell("this machine has one GPU: 'one' is the answer for it");
  if (all < 2) return std::nullopt;
  return std::min(all, kMostAsked / machines * machines);
}

void ask_machines(Questions& questions, ConfigAnswers& answers, int64_t gpus_of_this) {
  answers.num_machines = questions.number("How many machines", 1, 1, kMostAsked);
  const int64_t machines = answers.num_machines;
  if (machines > 1) {
    answers.machine_rank =
        questions.number("Which of them is this one, counted from 0", 0, 0, machines - 1);
    answers.main_process_ip =
        questions.text("Address of machine 0, as the others reach it", "", no_address);
    answers.main_process_port =
        questions.number("Port of machine 0 that is free for this", 29500, 1, 65535);
  }
  const bool gpus = answers.kind == ConfigKind::kSeveralGpus;
  // Accelerate takes no MULTI_GPU of one.
  answers.num_processes = questions.number(
      gpus ? "How many GPUs, over all machines" : "How many processes, over all machines",
      gpus ? proposed_gpus(questions, machines, gpus_of_this) : 2 * machines,
      gpus ? std::max<int64_t>(2, machines) : machines, kMostAsked / machines * machines, machines);
  answers.debug = questions.yes("Check before each exchange that all ranks mean the same");
}

}  // namespace

ConfigAnswers ask_config(std::istream& in, std::ostream& out, int64_t gpus) {
  Questions questions(in, out);
  ConfigAnswers answers;
  const std::string kind =
      questions.text("Train in one process, or in several: on GPUs or on the CPU (one/gpu/cpu)",
                     "one", [](const std::string& answer) -> std::string {
                       const bool known = answer == "one" || answer == "gpu" || answer == "cpu";
                       return known ? "" : "one, gpu or cpu";
                     });
  if (kind == "one") {
    answers.use_cpu = questions.yes("Train on the CPU even where there is a GPU");
    if (!answers.use_cpu) ask_gpus(questions, answers);
  } else {
    answers.kind = kind == "gpu" ? ConfigKind::kSeveralGpus : ConfigKind::kSeveralOnCpu;
    ask_machines(questions, answers, gpus);
    if (kind == "gpu") ask_gpus(questions, answers);
  }
  answers.mixed_precision = questions.text("Mixed precision: no, fp16 or bf16", "no", no_precision);
  return answers;
}

}  // namespace accel
