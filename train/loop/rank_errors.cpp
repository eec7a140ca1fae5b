#include "train/loop/rank_errors.h"

#include "core/base/error.h"

namespace accel {

std::string error_text(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  const ExitCode code = ours ? ours->code() : ExitCode::kOther;
  const std::string nul(1, '\0');
  return nul + std::to_string(static_cast<int>(code)) + nul + error.what() + nul +
         (ours ? ours->hint() : "");
}

void throw_if_error(const std::string& text) {
  if (!text.starts_with('\0')) return;
  const size_t message = text.find('\0', 1) + 1, hint = text.find('\0', message) + 1;
  const auto code = static_cast<ExitCode>(std::stoi(text.substr(1)));
  const std::string what = text.substr(message, hint - 1 - message), then = text.substr(hint);
  if (code == ExitCode::kIo) throw IoError(what, then);
  throw Error(code, what, then);
}

}  // namespace accel
