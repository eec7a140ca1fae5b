"""Exports a PyTorch module for accel-run's model `exported`; see docs/exported-models.md.

  python tools/export_model.py FILE OUT.pt2 [--vary INPUT:DIM ...]
  python tools/export_model.py FILE OUT.zip --aoti [--output KEY] [--vary INPUT:DIM ...]

FILE is Python that defines two functions:
  model()    gives the torch.nn.Module, with the weights to start from
  example()  gives a dict of its forward()'s inputs, a batch of at least two samples each

Dimension 0 of every input may be of any size; --vary lets further ones be, as in
`--vary input_ids:1`.

The file holds two programs, of the module in train() and in eval(), and its tensors once. It has no
pickles and no paths of this machine. With --aoti it holds the passes compiled for this machine's kind
of processor, for the model `aoti`.
"""

import argparse
import io
import json
import re
import runpy
import zipfile

import torch
from torch.export.pt2_archive._package import package_pt2


def dynamic_shapes(example, vary):
    """torch.export's dynamic_shapes: one size for all batches, any size for those of `vary`."""
    batch = torch.export.Dim("batch", min=1)
    shapes = {name: {0: batch} for name in example}
    for item in vary:
        name, _, dim = item.rpartition(":")
        if name not in example or not dim.isdigit():
            raise SystemExit(f"--vary {item}: wanted is INPUT:DIM, and the inputs are {', '.join(example)}")
        shapes[name][int(dim)] = torch.export.Dim.DYNAMIC
    return shapes


def lean(text):
    """A program's JSON without what is not needed to run it, such as the lines of Python it came from."""
    program = json.loads(text)
    specs = program["graph_module"]["signature"]["input_specs"]
    inputs = {spec["user_input"]["arg"].get("as_tensor", {}).get("name") for spec in specs if "user_input" in spec}

    def clean(graph):
        graph["tensor_values"] = {k: v for k, v in graph["tensor_values"].items() if k in inputs}
        for node in graph["nodes"]:
            stack = node["metadata"].get("nn_module_stack")
            node["metadata"] = {"nn_module_stack": stack} if stack else {}
            for argument in node["inputs"]:
                if "as_graph" in argument["arg"]:
                    clean(argument["arg"]["as_graph"]["graph"])

    clean(program["graph_module"]["graph"])
    return json.dumps(program, separators=(",", ":"))


def repack(packed, out):
    """Leaves out the pickled example, and what the second program has of the first one's weights."""
    source = zipfile.ZipFile(packed)
    root = source.namelist()[0].split("/")[0] + "/data/weights/"
    used = json.loads(source.read(root + "train_weights_config.json"))["config"]
    weights = {root + entry["path_name"] for entry in used.values()}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as target:
        for name in source.namelist():
            second = name.startswith(root) and not name.endswith("train_weights_config.json")
            if "/data/sample_inputs/" in name or (second and name not in weights):
                continue
            content = source.read(name)
            if "/models/" in name and name.endswith(".json"):
                content = lean(content).encode()
            # A fixed date: the same module gives the same bytes.
            target.writestr(zipfile.ZipInfo("model/" + name.split("/", 1)[1]), content)


# Parts of torch.export's messages about a branch or a size that depends on the values of a tensor.
DATA_DEPENDENT = ("data-dependent", "dynamic control flow")
PLACE = re.compile(r'([^\s"(]+\.py)(?:", line |:)(\d+)')


def traced(model, example, shapes):
    """torch.export's program; an error with the remedy if the values of a tensor decide what is computed."""
    try:
        return torch.export.export(model, (), dict(example), dynamic_shapes=shapes)
    except Exception as error:
        message = str(error)
        if not any(part in message.lower() for part in DATA_DEPENDENT):
            raise
        places = [file + ":" + line for file, line in PLACE.findall(message) if "/torch/" not in file]
        raise SystemExit(
            f"{places[-1] + ': ' if places else ''}forward() branches on the values of a tensor, which torch.export "
            f"cannot record: {message.splitlines()[0]}\n"
            "  hint: write the branch as torch.cond(predicate, true_fn, false_fn, operands), or a choice between "
            "values as torch.where(); branches on shapes and options need no change") from error


def export_programs(model, example, vary=()):
    """torch.export's programs of the model in train() and in eval()."""
    shapes = dynamic_shapes(example, vary)
    was_training = model.training
    programs = {}
    for name, training in (("train", True), ("eval", False)):
        model.train(training)
        programs[name] = traced(model, example, shapes)
    model.train(was_training)
    return programs


def export_model(model, example, out, vary=()):
    """Writes `out`. `example` names the inputs of forward(), in its order."""
    programs = export_programs(model, example, vary)
    packed = io.BytesIO()
    package_pt2(packed, exported_programs=programs)
    packed.seek(0)
    repack(packed, out)
    return programs["train"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", help="Python with model() and example()")
    parser.add_argument("out", help="the .pt2 file to write")
    parser.add_argument("--vary", action="append", default=[], metavar="INPUT:DIM")
    parser.add_argument("--aoti", action="store_true", help="compile it for accel-run's model aoti")
    parser.add_argument("--output", default="", metavar="KEY", help="with --aoti: which of several outputs, a "
                        "key of a dict or a number from 0; default: the first")
    options = parser.parse_args()
    defined = runpy.run_path(options.file)
    for function in ("model", "example"):
        if function not in defined:
            raise SystemExit(f"{options.file} has no function {function}()")
    model = defined["model"]()
    if options.aoti:
        from compile_model import compile_model

        programs = export_programs(model, defined["example"](), options.vary)
        compile_model(model, programs, options.out, options.output)
        program = programs["train"]
    else:
        program = export_model(model, defined["example"](), options.out, options.vary)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{options.out}: {len(program.graph.nodes)} calls, {parameters} parameters")


if __name__ == "__main__":
    main()
