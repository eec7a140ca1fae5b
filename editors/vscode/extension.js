// The extension: the language server of recipes, and tasks and commands that call accel-run.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("./language_client");
const manifest = require("./package.json");

const VERBS = manifest.contributes.taskDefinitions[0].properties.verb.enum;

let client = null;

function workspaceFolder() {
  const folders = vscode.workspace.workspaceFolders;
  return folders && folders.length > 0 ? folders[0].uri.fsPath : undefined;
}

/// The executable, from the settings.
function executable() {
  const path = vscode.workspace.getConfiguration("accel-run").get("path") || "accel-run";
  return path.replace("${workspaceFolder}", workspaceFolder() || "");
}

async function startServer() {
  await stopServer();
  const command = executable();
  client = new LanguageClient(vscode, command, workspaceFolder(), (reason) => {
    client = null;
    vscode.window
      .showErrorMessage(`The language server '${command} lsp' has ended: ${reason}. Set 'accel-run.path' to the executable.`, "Restart")
      .then((choice) => choice === "Restart" && startServer());
  });
  await client.start().catch(() => {}); // reported above
}

async function stopServer() {
  const last = client;
  client = null;
  if (last) await last.stop();
}

/// A task that calls accel-run with a verb and a recipe.
function task(definition, scope) {
  const words = [definition.verb, definition.recipe, ...(definition.overrides || [])];
  const execution = new vscode.ProcessExecution(executable(), words, { cwd: workspaceFolder() });
  const name = `${definition.verb} ${definition.recipe}`;
  return new vscode.Task(definition, scope || vscode.TaskScope.Workspace, name, "accel-run", execution, ["$accel-run"]);
}

const taskProvider = {
  provideTasks() {
    const editor = vscode.window.activeTextEditor;
    if (!editor || !["yaml", "toml"].includes(editor.document.languageId)) return [];
    const recipe = vscode.workspace.asRelativePath(editor.document.uri, false);
    return VERBS.map((verb) => task({ type: "accel-run", verb, recipe }));
  },
  resolveTask(found) {
    return task(found.definition, found.scope);
  },
};

/// Saves the open recipe and calls accel-run with it.
async function call(verb) {
  const editor = vscode.window.activeTextEditor;
  if (!editor) {
    vscode.window.showErrorMessage("Open a recipe first.");
    return;
  }
  await editor.document.save();
  const recipe = vscode.workspace.asRelativePath(editor.document.uri, false);
  await vscode.tasks.executeTask(task({ type: "accel-run", verb, recipe }));
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("accel-run.restartServer", startServer),
    ...VERBS.map((verb) => vscode.commands.registerCommand(`accel-run.${verb}`, () => call(verb))),
    vscode.tasks.registerTaskProvider("accel-run", taskProvider),
    vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("accel-run") && startServer()),
  );
  await startServer();
}

module.exports = { activate, deactivate: stopServer };
