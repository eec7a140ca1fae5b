// lsp: the language server that editors start.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "core/base/text.h"
#include "runner/cli/cli.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/world.h"
#include "runner/editor/language_server.h"

namespace accel {
namespace {

std::vector<Diagnostic> problems_of(const std::string& path, const EditorHost::Texts& texts) {
  RecipeArguments arguments;
  arguments.path = path;
  arguments.texts = texts;
  try {
    const LoadedRecipe recipe = load_recipe(arguments);
    check_ranks(recipe.options, recipe.resolved);
    return recipe.deprecations;
  } catch (const RecipeError& error) {
    return error.diagnostics();
  } catch (const Error& error) {
    return {{{}, error.what(), error.hint()}};
  }
}

/// Waits for bytes, since a signal may come in between.
size_t read_input(char* to, size_t size) {
  for (;;) {
    const ssize_t count = read(STDIN_FILENO, to, size);
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EINTR) throw IoError(text("cannot read from the editor: {}", strerror(errno)));
  }
}

bool input_waits() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) > 0;
}

void send(const std::vector<std::string>& messages) {
  for (const std::string& message : messages) std::cout << framed(message);
  std::cout.flush();
}

ExitCode editor_verb() {
  LanguageServer server({RecipeHelp(RecipeOptions::schema().info(), components()), builtin_folder(),
                         &problems_of, [](const std::string& path, const EditorHost::Texts& texts) {
                           RecipeArguments arguments;
                           arguments.path = path;
                           arguments.texts = texts;
                           return merged_recipe(arguments);
                         }});
  FrameReader input(&read_input);
  while (!server.ended()) {
    const std::optional<MessageFrame> frame = input.next();
    if (!frame) break;
    send(frame->too_large ? std::vector{LanguageServer::too_large()} : server.receive(frame->body));
    // Diagnostics of outdated texts would be wrong: wait until the input is read.
    if (!input.has_more() && !input_waits()) send(server.publish());
  }
  return server.ended_well() ? ExitCode::kDone : ExitCode::kOther;
}

}  // namespace

void add_editor_verb(VerbTable& verbs) {
  verbs.add("lsp", "serve an editor's language client: see docs/editors.md", &editor_verb);
}

}  // namespace accel
