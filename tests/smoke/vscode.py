#!/usr/bin/env python3
"""The extension for VS Code: its package is well formed, the executable has what it calls, and its
client talks to the language server.   vscode.py ACCEL_RUN

The client runs in Node.js with a substitute for the editor; without Node.js that check is skipped.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zipfile

import runs

SOURCE = pathlib.Path(os.environ.get("ACCEL_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
EXTENSION = SOURCE / "editors" / "vscode"
VSX = "{http://schemas.microsoft.com/developer/vsx-schema/2011}"


def packaged(binary, folder):
    """The package as {name: bytes}, and whether a second one has the same bytes."""
    for name in ("one.vsix", "two.vsix"):
        subprocess.run([sys.executable, EXTENSION / "package.py", binary, folder / name], check=True,
                       stdout=subprocess.DEVNULL)
    with zipfile.ZipFile(folder / "one.vsix") as archive:
        damaged = archive.testzip()
        files = {name: archive.read(name) for name in archive.namelist()}
    return files, not damaged and (folder / "one.vsix").read_bytes() == (folder / "two.vsix").read_bytes()


def check_package(files, report):
    manifest = xml.etree.ElementTree.fromstring(files["extension.vsixmanifest"])
    package = json.loads(files["extension/package.json"])
    identity = manifest.find(f"{VSX}Metadata/{VSX}Identity").attrib
    report.check("the manifest names the extension",
                 (identity["Id"], identity["Version"], identity["Publisher"])
                 == (package["name"], package["version"], package["publisher"]), identity)
    assets = [asset.attrib["Path"] for asset in manifest.iter(f"{VSX}Asset")]
    report.check("its assets are in the package", assets and all(path in files for path in assets), assets)
    types = xml.etree.ElementTree.fromstring(files["[Content_Types].xml"])
    known = {kind.attrib["Extension"].lstrip(".") for kind in types}
    report.check("every file has a content type",
                 {path.rpartition(".")[2] for path in files if path != "[Content_Types].xml"} <= known, known)
    points = package["contributes"]
    paths = [package["main"], *(item["path"] for item in points["snippets"]),
             *(item["url"] for item in points["yamlValidation"])]
    missing = [path for path in paths if "extension/" + path.removeprefix("./") not in files]
    report.check("the files of package.json are in the package", not missing, missing)
    required = re.findall(rb'require\("\./([\w/]+)(?:\.json)?"\)', files["extension/extension.js"])
    report.check("and so are those that the extension loads", len(required) > 1 and all(
        any(f"extension/{name.decode()}{ending}" in files for ending in (".js", ".json")) for name in required),
        required)
    lock = json.loads((EXTENSION / "package-lock.json").read_text())
    report.check("the lock file is that of the package",
                 [lock["version"], lock["packages"][""]["version"]] == [package["version"]] * 2
                 and list(lock["packages"]) == [""] and "dependencies" not in package, lock)


def check_commands(binary, package, report):
    help_text = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout
    verbs = set(re.findall(r"^  ([a-z-]+) {2,}", help_text, re.MULTILINE))
    called = package["contributes"]["taskDefinitions"][0]["properties"]["verb"]["enum"]
    report.check("the executable has the verbs of tasks", called and set(called) <= verbs, f"{called} {verbs}")
    commands = {item["command"].removeprefix("accel-run.") for item in package["contributes"]["commands"]}
    report.check("each verb is a command", commands == {*called, "restartServer"}, commands)
    for verb in called:
        done = subprocess.run([binary, verb, "--help"], capture_output=True, text=True, check=False)
        report.check(f"'{verb}' takes a recipe", done.returncode == 0 and "recipe" in done.stdout, done.stdout)


def check_errors_are_matched(binary, package, folder, report):
    """The problem matcher finds file, line and column of an error."""
    (folder / "bad.yaml").write_text("model: {type: mlp, hiden: [3]}\ndata: {train: synthetic/glyphs}\n")
    done = subprocess.run([binary, "validate", "bad.yaml"], cwd=folder, capture_output=True, text=True, check=False)
    pattern = package["contributes"]["problemMatchers"][0]["pattern"]
    match = re.search(pattern["regexp"], done.stderr, re.MULTILINE)
    found = match and [match.group(pattern[key]) for key in ("file", "line", "column", "severity", "message")]
    report.check("an error of 'validate' is a problem",
                 found == ["bad.yaml", "1", "20", "error", "unknown option 'hiden'"], done.stderr)


def check_snippets(binary, snippets, folder, report):
    """Each snippet with its default values is a recipe or a sweep; data and models are missing here."""
    (folder / "recipe.yaml").write_text("model: mlp\ndata: {train: synthetic/glyphs, eval: synthetic/glyphs}\noptimizer: adamw\n")
    for name, snippet in snippets.items():
        text = "\n".join(snippet["body"])
        text = re.sub(r"\$\{\d+:([^}]*)\}", r"\1", text)
        text = re.sub(r"\$\{\d+\|([^,]*),[^}]*\}", r"\1", text).replace("$0", "")
        (folder / "snippet.yaml").write_text(text)
        words = ["sweep", "snippet.yaml", "--dry-run"] if "grid" in text else ["validate", "snippet.yaml"]
        done = subprocess.run([binary, *words], cwd=folder, capture_output=True, text=True, check=False)
        errors = [line for line in done.stderr.splitlines()
                  if "error:" in line and not re.search("does not exist|error: no file", line)]
        report.check(f"the snippet '{name}' is valid", not errors and "$" not in text, done.stderr)


def check_client(binary, folder, report):
    node = shutil.which("node")
    if not node:
        print("skipped the client, there is no Node.js")
        return
    script = pathlib.Path(__file__).with_name("vscode_client.js")
    done = subprocess.run([node, script, EXTENSION, binary, folder], capture_output=True, text=True, timeout=600,
                          check=False)
    print(done.stdout, end="")
    report.check("the client talks to the language server", done.returncode == 0, done.stdout + done.stderr)


def main(binary):
    report = runs.Report()
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text).resolve()
        files, equal = packaged(binary, folder)
        package = json.loads(files["extension/package.json"])
        report.check("the package is whole and reproducible", equal)
        check_package(files, report)
        check_commands(binary, package, report)
        check_errors_are_matched(binary, package, folder, report)
        check_snippets(binary, json.loads(files["extension/snippets/recipe.json"]), folder, report)
        check_client(binary, folder, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
