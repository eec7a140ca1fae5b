// The extension for VS Code with a substitute for the editor and the real language server; see vscode.py.
//   node vscode_client.js EXTENSION_FOLDER ACCEL_RUN FOLDER
"use strict";

const fs = require("fs");
const path = require("path");
const Module = require("module");

const [extensionFolder, binary, folder] = process.argv.slice(2);
let failed = 0;

function check(what, ok, why) {
  if (!ok) failed = 1;
  console.log(`${ok ? "ok     " : "FAILED "} ${what}${ok ? "" : `: ${JSON.stringify(why)}`}`);
}

/// An event of the editor: a function that subscribes, with fire() to call the subscribers.
function event() {
  const listeners = new Set();
  const subscribe = (listener) => {
    listeners.add(listener);
    return { dispose: () => listeners.delete(listener) };
  };
  subscribe.fire = (value) => listeners.forEach((listener) => listener(value));
  return subscribe;
}

class Uri {
  constructor(fsPath) {
    this.fsPath = fsPath;
  }
  toString() {
    return "file://" + this.fsPath;
  }
  static file(fsPath) {
    return new Uri(fsPath);
  }
  static parse(text) {
    return new Uri(text.replace("file://", ""));
  }
}

class Document {
  constructor(name, text) {
    Object.assign(this, { uri: Uri.file(path.join(folder, name)), languageId: "yaml", version: 1, text });
  }
  getText() {
    return this.text;
  }
  async save() {
    fs.writeFileSync(this.uri.fsPath, this.text);
  }
}

const diagnostics = new Map();
const providers = {};
const commands = {};
const messages = [];
const executed = [];
let waiting = null;
const settings = { path: binary };
const provide = (name) => (_selector, provider) => {
  providers[name] = provider;
  return { dispose: () => delete providers[name] };
};
const plain = (...names) => class {
  constructor(...values) {
    names.forEach((name, i) => { this[name] = values[i]; });
  }
};

const vscode = {
  Uri,
  Range: plain("line", "character", "endLine", "endCharacter"),
  Diagnostic: plain("range", "message", "severity"),
  CodeAction: plain("title", "kind"),
  CodeActionKind: { QuickFix: "quickfix" },
  WorkspaceEdit: class {
    replace(uri, range, text) { Object.assign(this, { uri, range, text }); }
  },
  CompletionItem: plain("label", "kind"),
  Hover: plain("contents", "range"),
  Location: plain("uri", "range"),
  MarkdownString: plain("value"),
  ProcessExecution: plain("process", "args", "options"),
  Task: plain("definition", "scope", "name", "source", "execution", "matchers"),
  TaskScope: { Workspace: 2 },
  workspace: {
    workspaceFolders: [{ uri: Uri.file(folder) }],
    textDocuments: [],
    getConfiguration: () => ({ get: (name) => settings[name] }),
    asRelativePath: (uri) => path.relative(folder, uri.fsPath),
    onDidOpenTextDocument: event(),
    onDidChangeTextDocument: event(),
    onDidSaveTextDocument: event(),
    onDidCloseTextDocument: event(),
    onDidChangeConfiguration: event(),
  },
  languages: {
    match: (selector, document) => (selector.some((entry) => entry.language === document.languageId) ? 10 : 0),
    createDiagnosticCollection: () => ({
      set: (uri, list) => {
        diagnostics.set(uri.toString(), list);
        if (waiting) waiting(list);
      },
      dispose: () => diagnostics.clear(),
    }),
    registerCompletionItemProvider: provide("completion"),
    registerHoverProvider: provide("hover"),
    registerDefinitionProvider: provide("definition"),
    registerCodeActionsProvider: provide("fixes"),
  },
  commands: { registerCommand: (name, call) => { commands[name] = call; return { dispose() {} }; } },
  tasks: {
    registerTaskProvider: (_type, provider) => { providers.task = provider; return { dispose() {} }; },
    executeTask: async (task) => executed.push(task),
  },
  window: {
    activeTextEditor: null,
    showErrorMessage: async (text) => { messages.push(text); },
  },
};

const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));

/// The next diagnostics after `act`.
function next(act) {
  return new Promise((resolve) => {
    waiting = (list) => { waiting = null; resolve(list); };
    act();
  });
}

async function main() {
  const extension = require(path.join(extensionFolder, "extension.js"));
  const manifest = require(path.join(extensionFolder, "package.json"));
  const context = { subscriptions: [] };
  const document = new Document("r.yaml", "model: {type: mlp, hiden: [3]}\ndata: {train: synthetic/glyphs}\n");
  vscode.workspace.textDocuments.push(document);
  const opened = next(() => {});
  await extension.activate(context);
  const [wrong] = await opened;
  check("an open recipe has its error", wrong && wrong.message.startsWith("unknown option 'hiden'")
    && wrong.severity === 0 && wrong.range.character === 19 && wrong.source === "accel-run", wrong);
  const [fix] = await providers.fixes.provideCodeActions(
    document, { start: { line: 0, character: 20 }, end: { line: 0, character: 20 } });
  check("a misspelled option has a quick fix", fix && fix.isPreferred && fix.edit.text === "hidden_sizes"
    && fix.edit.range.character === 19 && fix.edit.range.endCharacter === 24, fix);

  document.text = "model: {type: mlp, hidden: [3]}  # \u00e9\u{1f600}\ndata: {train: synthetic/glyphs}\n";
  document.version = 2;
  const [old] = await next(() => vscode.workspace.onDidChangeTextDocument.fire({ document }));
  check("a deprecated name is a warning", old && old.severity === 1 && old.tags[0] === 2, old);

  document.text = "model:\n  type: mlp\n  h\ndata: {train: synthetic/glyphs}\ninclude: [builtin:quickstart]\n";
  await next(() => vscode.workspace.onDidChangeTextDocument.fire({ document }));
  const items = await providers.completion.provideCompletionItems(document, { line: 2, character: 3 });
  const item = items.find((found) => found.label === "hidden_sizes");
  check("options are completed", item && item.kind === 9 && item.insertText === "hidden_sizes: "
    && item.range.line === 2 && item.documentation.value.length > 0, items.slice(0, 2));
  const hover = await providers.hover.provideHover(document, { line: 1, character: 4 });
  check("an option has its description", hover && hover.contents.value.includes("model"), hover);
  const nothing = await providers.hover.provideHover(document, { line: 1, character: 0 });
  check("a blank has none", !nothing, nothing);
  document.text = document.text.replace("  h\n", "  hidden_sizes: [3]\n");
  await next(() => vscode.workspace.onDidChangeTextDocument.fire({ document }));
  const goal = await providers.definition.provideDefinition(document, { line: 4, character: 20 });
  check("an include leads to its file", goal && goal.uri.fsPath.endsWith("quickstart.yaml"), goal);

  check("all commands of the manifest are registered",
    manifest.contributes.commands.every(({ command }) => commands[command]), Object.keys(commands));
  await commands["accel-run.validate"]();
  check("a command without a recipe says so", messages.pop() === "Open a recipe first.");
  vscode.window.activeTextEditor = { document };
  await commands["accel-run.validate"]();
  const { process: program, args, options } = executed[0].execution;
  check("a command calls the executable", program === binary && args.join(" ") === "validate r.yaml"
    && options.cwd === folder && executed[0].matchers[0] === "$accel-run", executed[0]);
  check("after the recipe is saved", fs.readFileSync(document.uri.fsPath, "utf8") === document.text);
  const tasks = providers.task.provideTasks();
  check("each verb is a task", tasks.length === manifest.contributes.taskDefinitions[0].properties.verb.enum.length);
  const resolved = providers.task.resolveTask({
    definition: { type: "accel-run", verb: "run", recipe: "r.yaml", overrides: ["name=a"] }, scope: 2,
  });
  check("a task of tasks.json has its overrides", resolved.execution.args.join(" ") === "run r.yaml name=a", resolved);

  vscode.workspace.onDidCloseTextDocument.fire(document);
  vscode.workspace.textDocuments.pop();
  await commands["accel-run.restartServer"]();
  check("a restart leaves no message", messages.length === 0, messages);
  settings.path = "${workspaceFolder}/nothing-here";
  await commands["accel-run.restartServer"]();
  check("a missing executable is reported once", messages.length === 1
    && messages[0].includes(path.join(folder, "nothing-here")) && messages[0].includes("'accel-run.path'"), messages);
  await extension.deactivate();
}

main().then(() => process.exit(failed), (error) => {
  console.log(error.stack);
  process.exit(1);
});
