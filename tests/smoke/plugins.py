#!/usr/bin/env python3
"""Plugins, as their authors and users meet them: the examples train and resume, a new one is built
and trained, and those that are broken or not what they were are refused.

    plugins.py ACCEL_RUN FOLDER LINKED

FOLDER has the built examples: KIND/NAME.so and KIND/recipe.yaml; LINKED is an accel-run that they
are part of.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import runs

KINDS = ("callback", "dataset", "image_model", "metric", "model", "optimizer", "reward", "scheduler", "task",
         "tracker", "transform")
# Examples of tasks that are more than a loss: what each leaves in a checkpoint beside the usual.
TASKS = {"gan": {"model_1.safetensors", "optimizer_1.bin", "scheduler_1.bin"},
         "reinforce": {"custom_checkpoint_0.pkl"}, "two_tasks": set()}
# Those whose whole recipe is run as well; check_new() and check_package() run two others.
WHOLE = ("callback", "dataset", "image_model", "model", "optimizer", "reward", "tracker", *TASKS)


class Place:
    """A folder to run in."""

    def __init__(self, binary, folder):
        self.binary = pathlib.Path(binary).resolve()
        self.path = pathlib.Path(folder)

    def call(self, *words, **variables):
        """(exit code, standard output and error)."""
        result = subprocess.run([self.binary, *words], cwd=self.path, text=True, check=False,
                                env={**runs.ENVIRONMENT, **variables}, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return result.returncode, result.stdout

    def copy(self, built, kind):
        """The example of a kind, to be changed."""
        shutil.copytree(pathlib.Path(built) / kind, self.path / kind)
        return self.path / kind


def check_examples(binary, built, report):
    for kind in (*KINDS, *TASKS):
        with tempfile.TemporaryDirectory() as folder:
            place = Place(binary, folder)
            recipe = str(pathlib.Path(built) / kind / "recipe.yaml")
            code, output = place.call("smoke", recipe)
            report.check(f"the example of a plugin ({kind}) resumes to the bit", code == 0, output)
            if kind not in WHOLE:
                continue
            code, output = place.call(recipe)
            report.check(f"the example of a plugin ({kind}) does what it is for", code == 0, output)


def check_ranks(binary, built, report):
    with tempfile.TemporaryDirectory() as folder:
        place = Place(binary, folder)
        recipe = str(pathlib.Path(built) / "optimizer" / "recipe.yaml")
        code, output = place.call(recipe, "accelerator.num_processes=2", "train.until=8 steps",
                                  "name=two", "~expect")
        report.check("each rank loads the same plugin", code == 0, output)
        code, output = place.call(recipe, "train.until=8 steps", "name=one", "~expect")
        one, two = losses(place.path / "runs/one"), losses(place.path / "runs/two")
        # Sums of two ranks are rounded otherwise than one's.
        report.check("and computes what one process does", code == 0 and len(one) == len(two) == 8
                     and all(abs(a - b) <= 1e-5 * abs(a) for a, b in zip(one, two)),
                     f"exit {code}\n{one}\n{two}\n{output}")


def check_linked(binary, built, linked, report):
    """The same source as part of the executable: found without being named, with the same numbers."""
    for kind in (*KINDS, *TASKS):
        with tempfile.TemporaryDirectory() as folder:
            ends = []
            for name, place, words in (("loaded", Place(binary, folder), []),
                                       ("linked", Place(linked, folder), ["~plugins"])):
                code, output = place.call(
                    str(pathlib.Path(built) / kind / "recipe.yaml"), f"name={name}", "~expect",
                    "train.until=6 steps", *words)
                report.check(f"the example ({kind}) trains {name}", code == 0, output)
                run = place.path / "runs" / name
                lines = (run / "metrics.jsonl").read_text().splitlines()
                ends.append(([line for line in lines if "loss_bits" in line], weights(run)))
            report.check(f"and ends as the same, bit for bit ({kind})",
                         ends[0] == ends[1] and len(ends[0][0]) == 6 and ends[0][1], ends[0][0][:2])
            code, output = Place(binary, folder).call("validate", str(
                pathlib.Path(built) / kind / "recipe.yaml"), "~plugins")
            report.check(f"which accel-run alone does not know ({kind})",
                         code == 2 and "'example/" in output, output)


def check_tasks(binary, built, report):
    """What a task draws at random follows from the step and the sample, so ranks change nothing but
    how sums are rounded, and a run of two that was stopped ends as one that was not."""
    for kind, files in TASKS.items():
        with tempfile.TemporaryDirectory() as folder:
            place = Place(binary, folder)
            recipe = str(pathlib.Path(built) / kind / "recipe.yaml")

            def train(what, wanted, name, *words):
                code, output = place.call(recipe, f"name={name}", "train.until=6 steps", "~expect",
                                          "data.train.length=200", *words)
                report.check(f"the plugin's task ({kind}) {what}", code == wanted, f"exit {code}\n{output}")
                return place.path / "runs" / name

            two = "accelerator.num_processes=2"
            one = losses(train("trains on one rank", 0, "one"))
            run = train("trains on two", 0, "two", two)
            close = [abs(a - b) <= 1e-4 * (1 + abs(a)) for a, b in zip(one, losses(run))]
            report.check(f"the plugin's task ({kind}) computes the same on both",
                         close == [True] * 6, f"{one}\n{losses(run)}")
            train("stops", 75, "halved", two, "--stop-after", "3")
            halved = train("resumes", 0, "halved", two)
            report.check(f"the plugin's task ({kind}) ends as if it had not stopped",
                         losses(halved) == losses(run) and weights(halved) == weights(run))
            report.check(f"the plugin's task ({kind}) is saved whole", files <= weights(run).keys(),
                         sorted(weights(run)))


def weights(run):
    """The files of the last checkpoint that training made what they are."""
    names = ("*.safetensors", "optimizer*.bin", "scheduler*.bin", "custom_checkpoint_*.pkl")
    (folder,) = (run / "checkpoints").glob("checkpoint_6")
    return {path.name: path.read_bytes() for name in names for path in folder.glob(name)}


def losses(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss_bits" in line]


def check_reading(binary, built, report):
    """No code of a plugin runs where a recipe is only read: a file that would crash is reported."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(binary, folder)
        example = place.copy(built, "model")
        file = str(example / "sine_net.so")
        environment = {"LD_DEBUG": "files"}
        for words in (["validate", "model/recipe.yaml"], ["show", "model/recipe.yaml"],
                      ["list", "model", "--plugin", file], ["schema", "--plugin", file],
                      ["explain", "model", "example/sine_net", "--plugin", file]):
            code, output = place.call(*words, **environment)
            report.check(f"'{words[0]}' knows a plugin without loading it",
                         code == 0 and (words[0] == "validate" or "example/sine_net" in output)
                         and "calling init: " + file not in output
                         and "calling init: " in output, f"exit {code}\n{output[-2000:]}")
        code, output = place.call("validate", "model/recipe.yaml", "model.hiden_sizes=5",
                                  "model.frequency=0")
        report.check("its options are checked as built-in ones",
                     code == 2 and "unknown option 'hiden_sizes'" in output
                     and "did you mean 'hidden_sizes'?" in output
                     and "'frequency' must be more than 0, not 0" in output, output)


def rebuilt(example, version):
    """Other bytes and another version, with a manifest that fits."""
    file = next(example.glob("*.so"))
    file.write_bytes(file.read_bytes() + b"\0")
    manifest = pathlib.Path(f"{file}.toml")
    text = re.sub(r'version = ".*"', f'version = "{version}"', manifest.read_text())
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    manifest.write_text(re.sub(r'sha256 = ".*"', f'sha256 = "{digest}"', text))
    return digest


def check_resume(binary, built, report):
    with tempfile.TemporaryDirectory() as folder:
        place = Place(binary, folder)
        example = place.copy(built, "optimizer")
        code, output = place.call("optimizer/recipe.yaml", "train.until=4 steps", "~expect")
        report.check("a run with a plugin's optimizer saves", code == 0, output)
        manifest = next((place.path / "runs/signum/checkpoints").glob("*/accel_run.json")).read_text()
        digest = hashlib.sha256((example / "signum.so").read_bytes()).hexdigest()
        report.check("the checkpoint names the plugin, its version and digest",
                     f'"plugin example/signum": "0.1.0, sha256 {digest}"' in manifest, manifest[:1500])
        code, output = place.call("evaluate", "runs/signum")
        report.check("what was trained with a plugin is evaluated", code == 0, f"exit {code}\n{output}")
        other = rebuilt(example, "0.2.0")
        code, output = place.call("evaluate", "runs/signum")
        report.check("but not with another one", code == 4 and
                     f"error: the plugin 'example/signum' is 0.2.0, sha256 {other}; the checkpoint was made "
                     f"with 0.1.0, sha256 {digest}\n  hint: restore the old file" in output,
                     f"exit {code}\n{output}")
        code, output = place.call("resume", "runs/signum", "train.until=6 steps")
        report.check("a plugin that is another now is named",
                     code == 4 and "error: the plugin 'example/signum' has changed since the checkpoint: "
                     f"it was 0.1.0, sha256 {digest}, and is 0.2.0, sha256 "
                     f"{other}\n  hint: restore the old file, or add --allow plugins" in output,
                     f"exit {code}\n{output}")
        code, output = place.call("resume", "--allow", "plugins", "runs/signum", "train.until=6 steps")
        report.check("and accepted when the user says so", code == 0, output)
        (example / "signum.so").unlink()
        code, output = place.call("resume", "runs/signum", "train.until=8 steps")
        report.check("a plugin that is gone is named", code == 2 and
                     "there is no plugin 'optimizer/signum.so'" in output, f"exit {code}\n{output}")


def check_blocks(place, report):
    """A plugin's blocks are checkpointed, which changes no bit of the losses."""
    losses = {}
    for switch in ("none", "blocks"):
        code, output = place.call("sines.yaml", f"train.activation_checkpointing={switch}",
                                  "--run-dir", f"runs/sines_{switch}")
        report.check(f"a plugin's model trains with activation_checkpointing={switch}", code == 0,
                     output)
        lines = (place.path / f"runs/sines_{switch}/metrics.jsonl").read_text().splitlines()
        losses[switch] = [record["loss"] for record in map(json.loads, lines) if "loss" in record]
    report.check("checkpointed blocks of a plugin give the same losses",
                 len(losses["none"]) == 3 and losses["none"] == losses["blocks"], f"{losses}")


def check_applied(binary, built, report):
    """evaluate, predict and generate bring the plugins that a checkpoint was made with."""
    data = pathlib.Path(__file__).resolve().parents[2] / "recipes/tiny/data"
    flowers = f"type: csv, path: {data}/flowers.csv, target: kind, features: [petal, sepal]"
    rhyme = f"type: text, path: {data}/rhyme.txt, level: chars, max_seq_len: 16"
    recipes = {
        "sines": "plugins: [model/sine_net.so]\nmodel: {type: example/sine_net, hidden_sizes: [8]}\n"
                 f"data: {{train: {{{flowers}}}, eval: {{{flowers}}}}}\n",
        "signs": "plugins: [optimizer/signum.so]\nmodel: {type: gpt, num_layers: 1, num_heads: 2, hidden_size: 16}\n"
                 f"data: {{train: {{{rhyme}}}, eval: {{{rhyme}}}}}\n"
                 "optimizer: {type: example/signum, lr: 0.01}\n"}
    asked = {"sines": (["evaluate", "runs/sines"],
                       ["predict", "runs/sines", "--input", str(data / "flowers.csv")]),
             "signs": (["evaluate", "runs/signs"],
                       ["generate", "runs/signs", "--prompt", "the", "--max-new-tokens", "9"])}
    with tempfile.TemporaryDirectory() as folder:
        place = Place(binary, folder)
        for kind, name in (("model", "sines"), ("optimizer", "signs")):
            example = place.copy(built, kind)
            (place.path / f"{name}.yaml").write_text(
                recipes[name] + "train: {until: 3 steps, batch: 8}\n"
                "accelerator: {num_cpu_threads_per_process: 1}\n")
            code, output = place.call(f"{name}.yaml")
            report.check(f"'{name}' trains with a plugin", code == 0, output)
            if name == "sines":
                check_blocks(place, report)
            for words in asked[name]:
                code, output = place.call(*words)
                lines = {"evaluate": 2, "predict": 96, "generate": 1}[words[0]]
                report.check(f"'{words[0]}' brings the plugin of '{name}'",
                             code == 0 and len(output.splitlines()) >= lines, f"exit {code}\n{output}")
            other = rebuilt(example, "0.2.0")
            for words in asked[name]:
                code, output = place.call(*words)
                report.check(f"'{words[0]}' refuses another one", code == 4
                             and f"error: the plugin 'example/{next(example.glob('*.so')).stem}' is "
                             f"0.2.0, sha256 {other}; the checkpoint was made with 0.1.0, " in output,
                             f"exit {code}\n{output}")
            next(example.glob("*.so")).unlink()
            for words in asked[name]:
                code, output = place.call(*words)
                report.check(f"'{words[0]}' names the one that is gone", code == 2
                             and "there is no plugin '" in output, f"exit {code}\n{output}")


def check_refusals(binary, built, report):
    with tempfile.TemporaryDirectory() as folder:
        place = Place(binary, folder)
        example = place.copy(built, "callback")
        file = example / "good_enough.so"
        good = file.read_bytes()
        cases = (("an empty file", b"", "is not a shared object: it is not an ELF file"),
                 ("a file cut short", good[:-100], "is not a shared object: it ends before its "
                  "section table"),
                 ("another compiler's", good.replace(b"compiler: ", b"compiler; "),
                  "was built with compiler none, and this accel-run with "),
                 ("another libtorch's", good.replace(b"libtorch: 2.", b"libtorch: 1."),
                  "was built with libtorch 1."),
                 ("a changed file", good + b"\0", "does not match its manifest"))
        for name, data, message in cases:
            file.write_bytes(data)
            for words in (["validate", "callback/recipe.yaml"], ["callback/recipe.yaml"]):
                code, output = place.call(*words)
                report.check(f"{name} is refused by '{words[0]}', where the recipe names it",
                             code == 2 and "callback/recipe.yaml:3:11: error: plugin "
                             "'callback/good_enough.so' " + message in output
                             and not (place.path / "runs").exists(), f"exit {code}\n{output}")
        file.write_bytes(good)
        file.chmod(0o666)
        code, output = place.call("validate", "callback/recipe.yaml")
        report.check("a file that everyone may change is refused", code == 2
                     and "'callback/good_enough.so' is writable by every user" in output, output)
        file.chmod(0o755)
        code, output = place.call("callback/recipe.yaml", "eval.metrics=[mae]", "~expect")
        report.check("what a plugin's constructor throws is reported where the recipe asked for it",
                     code == 2 and "callback/recipe.yaml:11:13: error: 'example/good_enough' watches "
                     "'eval/mse', which nothing reports\n" in output, f"exit {code}\n{output}")


def check_thrown_type(binary, built, report):
    """IoError has an exit code of its own, which is lost where its type is not known."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(binary, folder)
        (place.path / "runs/notebook/notebook.txt").mkdir(parents=True)
        code, output = place.call(str(pathlib.Path(built) / "tracker" / "recipe.yaml"))
        report.check("an exception of a plugin keeps its type", code == 7
                     and "cannot write '" in output, f"exit {code}\n{output}")


def check_new(binary, report):
    """From nothing to a trained component, with what docs/plugins.md says."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(binary, folder)
        code, output = place.call("plugin", "new", "task", "acme/my-loss")
        report.check("a new plugin is written", code == 0 and
                     sorted(os.listdir(place.path / "my_loss")) ==
                     ["my_loss.cpp", "plugin.toml", "recipe.yaml", "test.sh"], output)
        result = subprocess.run(["my_loss/test.sh"], cwd=place.path, text=True, check=False,
                                env=runs.ENVIRONMENT, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)
        report.check("its test builds it, resumes it and trains it, by the program that wrote it",
                     result.returncode == 0 and f"with {place.binary}\n" in result.stdout
                     and re.search(r"^built my_loss\.so in \d+ s: task acme/my-loss$", result.stdout, re.MULTILINE),
                     result.stdout)
        result = subprocess.run(["my_loss/test.sh"], cwd=place.path, text=True, check=False,
                                env={**runs.ENVIRONMENT, "ACCEL_RUN": "no-such-program"},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        report.check("or by the one that ACCEL_RUN names", result.returncode == 127
                     and "with no-such-program\n" in result.stdout, result.stdout)
        code, output = place.call("plugin", "new", "model", "accel/net")
        report.check("accel-run's own vendor's name is refused", code == 2
                     and "error: 'accel/net' is not a valid plugin name: the vendor 'accel' is reserved for accel-run\n" in output and not (place.path / "net").exists(), output)
        source = place.path / "my_loss/my_loss.cpp"
        source.write_text(source.read_text().replace("at::Tensor loss(Model& model, const Batch&", "at::Tensor loss(Model& model, Batch&"))
        before = (place.path / "my_loss/my_loss.so").read_bytes()
        code, output = place.call("plugin", "build", "my_loss")
        report.check("one that does not compile leaves the old one in its place", code == 2
                     and "error: the compiler exited with 1: no plugin was built" in output
                     and (place.path / "my_loss/my_loss.so").read_bytes() == before,
                     f"exit {code}\n{output}")
        report.check("and a signature that overrides nothing is named, without the templates behind it",
                     "but does not override" in output and output.count(": error: ") <= 3
                     and "a component overrides every pure virtual function of its interface" in output, output)


def check_package(binary, report):
    """A project of the author's own, against the build tree's CMake package."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(binary, folder)
        code, output = place.call("plugin", "new", "scheduler", "acme/steps", "steps")
        report.check("a new plugin lists what is built in", code == 0 and
                     re.search(r"^built-in ones: constant, cosine, .*, wsd$", output, re.MULTILINE), output)
        (place.path / "steps/CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.22)\nproject(steps CXX)\n"
            "find_package(accel-run REQUIRED)\n"
            "accel_add_plugin(steps MANIFEST plugin.toml steps.cpp)\n")
        package = place.binary.parent / "lib/cmake/accel-run"
        for words in (["-S", "steps", "-B", "steps", f"-Daccel-run_DIR={package}"],
                      ["--build", "steps"]):
            made = subprocess.run(["cmake", *words], cwd=place.path, text=True, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            output += made.stdout
            code = code or made.returncode
        report.check("accel_add_plugin() builds and describes a plugin", code == 0 and
                     f"wrote the manifest of {place.path}/steps/steps.so: scheduler acme/steps\n" in output, output)
        code, output = place.call("steps/recipe.yaml")
        report.check("which a recipe then uses", code == 0, output)


def main():
    binary, built, linked = sys.argv[1:]
    built = pathlib.Path(built).resolve()
    report = runs.Report()
    check_examples(binary, built, report)
    check_ranks(binary, built, report)
    check_linked(binary, built, pathlib.Path(linked).resolve(), report)
    check_tasks(binary, built, report)
    check_reading(binary, built, report)
    check_resume(binary, built, report)
    check_applied(binary, built, report)
    check_refusals(binary, built, report)
    check_thrown_type(binary, built, report)
    check_new(binary, report)
    check_package(binary, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
