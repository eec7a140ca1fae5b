// A client of the language server `accel-run lsp`, over its standard input and output.
"use strict";

const { spawn } = require("child_process");

/// Splits a byte stream into the JSON messages of the Language Server Protocol.
class MessageReader {
  constructor(receive) {
    this.receive = receive;
    this.buffer = Buffer.alloc(0);
  }

  push(chunk) {
    this.buffer = Buffer.concat([this.buffer, chunk]);
    for (;;) {
      const end = this.buffer.indexOf("\r\n\r\n");
      if (end < 0) return;
      const header = /content-length: *(\d+)/i.exec(this.buffer.toString("ascii", 0, end));
      if (!header) throw new Error("a message of the language server has no length");
      const begin = end + 4;
      const length = Number(header[1]);
      if (this.buffer.length < begin + length) return;
      const message = JSON.parse(this.buffer.toString("utf8", begin, begin + length));
      this.buffer = this.buffer.subarray(begin + length);
      this.receive(message);
    }
  }
}

/// One server process with its documents. `ended(reason)` is called once, unless stop() was called.
class LanguageClient {
  constructor(vscode, command, folder, ended) {
    this.vscode = vscode;
    this.command = command;
    this.folder = folder;
    this.ended = ended;
    this.nextId = 1;
    this.pending = new Map();
    this.disposables = [];
    this.open = new Set();
    this.running = false;
  }

  async start() {
    this.process = spawn(this.command, ["lsp"], { cwd: this.folder, stdio: ["pipe", "pipe", "ignore"] });
    const reader = new MessageReader((message) => this.receive(message));
    this.process.stdout.on("data", (chunk) => {
      try {
        reader.push(chunk);
      } catch (error) {
        this.end(error.message);
      }
    });
    this.process.stdin.on("error", () => {}); // the event 'exit' follows
    this.process.on("error", (error) => this.end(error.message));
    this.process.on("exit", (code, signal) => this.end(`it exited with ${signal || code}`));
    this.running = true;
    const answer = await this.request("initialize", {
      processId: process.pid,
      rootUri: this.folder ? this.vscode.Uri.file(this.folder).toString() : null,
      capabilities: { general: { positionEncodings: ["utf-16"] } },
    });
    this.notify("initialized", {});
    this.diagnostics = this.vscode.languages.createDiagnosticCollection("accel-run");
    this.disposables.push(this.diagnostics);
    this.register(answer.capabilities);
  }

  /// Asks the server to exit; resolves when the process has ended.
  async stop() {
    if (!this.running) return;
    const exited = new Promise((resolve) => this.process.once("exit", resolve));
    this.ended = () => {};
    try {
      await this.request("shutdown", null);
      this.notify("exit", null);
    } catch (_) {
      this.process.kill();
    }
    await exited;
  }

  end(reason) {
    if (!this.running) return;
    this.running = false;
    this.process.kill();
    for (const { reject } of this.pending.values()) reject(new Error(reason));
    this.pending.clear();
    for (const disposable of this.disposables) disposable.dispose();
    this.ended(reason);
  }

  send(message) {
    const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }), "utf8");
    this.process.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
    this.process.stdin.write(body);
  }

  notify(method, params) {
    if (this.running) this.send({ method, params });
  }

  request(method, params) {
    if (!this.running) return Promise.reject(new Error("the language server is not running"));
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      this.pending.set(id, { resolve, reject });
      this.send({ id, method, params });
    });
  }

  receive(message) {
    if (message.method === "textDocument/publishDiagnostics") {
      this.publish(message.params);
    } else if (message.method && message.id !== undefined) {
      this.send({ id: message.id, error: { code: -32601, message: "not supported" } });
    } else if (this.pending.has(message.id)) {
      const { resolve, reject } = this.pending.get(message.id);
      this.pending.delete(message.id);
      if (message.error) reject(new Error(message.error.message));
      else resolve(message.result);
    }
  }

  /// Synchronizes documents, and registers the providers that the server supports.
  register(capabilities) {
    const { workspace, languages } = this.vscode;
    const selector = ["yaml", "toml"].map((language) => ({ language, scheme: "file" }));
    const ours = (document) => languages.match(selector, document) > 0;
    this.disposables.push(
      workspace.onDidOpenTextDocument((document) => ours(document) && this.didOpen(document)),
      workspace.onDidChangeTextDocument((event) => this.didChange(event.document)),
      workspace.onDidSaveTextDocument((document) => this.didSave(document)),
      workspace.onDidCloseTextDocument((document) => this.didClose(document)),
    );
    workspace.textDocuments.filter(ours).forEach((document) => this.didOpen(document));
    if (capabilities.completionProvider) {
      const provider = { provideCompletionItems: (document, position) => this.complete(document, position) };
      const triggers = capabilities.completionProvider.triggerCharacters || [];
      this.disposables.push(languages.registerCompletionItemProvider(selector, provider, ...triggers));
    }
    if (capabilities.hoverProvider) {
      const provider = { provideHover: (document, position) => this.hover(document, position) };
      this.disposables.push(languages.registerHoverProvider(selector, provider));
    }
    if (capabilities.definitionProvider) {
      const provider = { provideDefinition: (document, position) => this.definition(document, position) };
      this.disposables.push(languages.registerDefinitionProvider(selector, provider));
    }
    if (capabilities.codeActionProvider) {
      const provider = { provideCodeActions: (document, range) => this.fixes(document, range) };
      this.disposables.push(languages.registerCodeActionsProvider(selector, provider));
    }
  }

  didOpen(document) {
    this.open.add(document.uri.toString());
    this.notify("textDocument/didOpen", {
      textDocument: {
        uri: document.uri.toString(), languageId: document.languageId, version: document.version,
        text: document.getText(),
      },
    });
  }

  didChange(document) {
    if (!this.open.has(document.uri.toString())) return;
    this.notify("textDocument/didChange", {
      textDocument: { uri: document.uri.toString(), version: document.version },
      contentChanges: [{ text: document.getText() }],
    });
  }

  didClose(document) {
    if (!this.open.delete(document.uri.toString())) return;
    this.notify("textDocument/didClose", { textDocument: { uri: document.uri.toString() } });
  }

  didSave(document) {
    if (this.open.has(document.uri.toString())) {
      this.notify("textDocument/didSave", { textDocument: { uri: document.uri.toString() } });
    }
  }

  at(method, document, position) {
    return this.request(method, {
      textDocument: { uri: document.uri.toString() },
      position: { line: position.line, character: position.character },
    });
  }

  range({ start, end }) {
    return new this.vscode.Range(start.line, start.character, end.line, end.character);
  }

  publish({ uri, diagnostics }) {
    const { Diagnostic, Uri } = this.vscode;
    this.diagnostics.set(Uri.parse(uri), diagnostics.map((found) => {
      const severity = (found.severity || 1) - 1; // the editor counts from 0
      const diagnostic = new Diagnostic(this.range(found.range), found.message, severity);
      diagnostic.source = found.source;
      diagnostic.tags = found.tags;
      return diagnostic;
    }));
  }

  async complete(document, position) {
    const answer = await this.at("textDocument/completion", document, position);
    return ((answer && answer.items) || answer || []).map((found) => {
      const kind = found.kind === undefined ? undefined : found.kind - 1; // the editor counts from 0
      const item = new this.vscode.CompletionItem(found.label, kind);
      item.detail = found.detail;
      item.filterText = found.filterText;
      if (found.documentation) item.documentation = this.markdown(found.documentation);
      if (found.textEdit) {
        item.range = this.range(found.textEdit.range);
        item.insertText = found.textEdit.newText;
      }
      return item;
    });
  }

  async hover(document, position) {
    const answer = await this.at("textDocument/hover", document, position);
    return answer && new this.vscode.Hover(this.markdown(answer.contents), answer.range && this.range(answer.range));
  }

  async definition(document, position) {
    const answer = await this.at("textDocument/definition", document, position);
    return answer && new this.vscode.Location(this.vscode.Uri.parse(answer.uri), this.range(answer.range));
  }

  async fixes(document, range) {
    const position = ({ line, character }) => ({ line, character });
    const answer = await this.request("textDocument/codeAction", {
      textDocument: { uri: document.uri.toString() },
      range: { start: position(range.start), end: position(range.end) },
      context: { diagnostics: [] },
    });
    return (answer || []).map((found) => {
      const action = new this.vscode.CodeAction(found.title, this.vscode.CodeActionKind.QuickFix);
      action.isPreferred = found.isPreferred;
      action.edit = new this.vscode.WorkspaceEdit();
      for (const [uri, edits] of Object.entries(found.edit.changes)) {
        for (const edit of edits) {
          action.edit.replace(this.vscode.Uri.parse(uri), this.range(edit.range), edit.newText);
        }
      }
      return action;
    });
  }

  markdown(contents) {
    return new this.vscode.MarkdownString(typeof contents === "string" ? contents : contents.value);
  }
}

module.exports = { LanguageClient, MessageReader };
