"""Compiles a PyTorch module for accel-run's model `aoti`: what `export_model.py --aoti` calls.

The module is traced with its backward pass as torch.compile does it, and what comes of it is
compiled by TorchInductor into three shared objects: a forward and a backward pass for training, and
a forward pass for evaluation. Weights are no part of them but arguments. PyTorch and a C++ compiler
are needed here, and where the file is used neither.
"""

import contextlib
import json
import os
import platform
import struct
import zipfile

import safetensors.torch
import torch
from torch._functorch._aot_autograd import descriptors as aot
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.joint_graph import joint_graph_passes
from torch._inductor.virtualized import V
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

FORMAT = 1
# Extensions that a compiler may use for this processor.
CPU_FLAGS = ("avx", "bmi", "fma", "f16c", "movbe", "popcnt", "sse", "ssse3", "amx", "sha_ni", "vaes",
             "vpclmulqdq", "gfni", "adx", "lzcnt", "abm")
DTYPES = {torch.uint8: "U8", torch.int8: "I8", torch.int16: "I16", torch.int32: "I32", torch.int64: "I64",
          torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64",
          torch.bool: "BOOL"}


class OneOutput(torch.nn.Module):
    """A module whose forward() gives the tensor that is trained on, and nothing else."""

    def __init__(self, module, output):
        super().__init__()
        self.module = module
        self.output = output

    def forward(self, **inputs):
        made = self.module(**inputs)
        if not isinstance(made, torch.Tensor):
            entries = dict(made) if hasattr(made, "items") else {str(i): part for i, part in enumerate(made)}
            if (self.output or next(iter(entries))) not in entries:
                raise SystemExit(f"--output {self.output}: the module gives {', '.join(entries)}")
            made = entries[self.output or next(iter(entries))]
        return made.contiguous()


def name_of(target):
    """As the user's module calls it."""
    return target.removeprefix("module.")


def operand(node):
    """Where an input of a graph comes from."""
    source = node.meta.get("desc")
    if isinstance(source, (aot.ParamAOTInput, aot.BufferAOTInput)):
        return ["tensor", name_of(source.target)]
    if isinstance(source, aot.PlainAOTInput):
        return ["input", source.idx]
    if isinstance(source, aot.TangentAOTInput) and isinstance(source.output, aot.PlainAOTOutput):
        return ["gradient"]
    raise SystemExit(f"the module cannot be compiled for training: it takes {source or node.name}")


def placeholders(graph_module):
    return graph_module.graph.find_nodes(op="placeholder")


def outputs(graph_module):
    """(node, descriptor) of each output."""
    node = graph_module.graph.output_node()
    return list(zip(node.args[0], node.meta["desc"]))


def keep_outputs(graph_module, nodes):
    graph_module.graph.output_node().args = (tuple(nodes),)
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()


def sizes_from_tensors(graph_module):
    """A compiled graph is given tensors alone: sizes among its inputs are taken from these."""
    graph = graph_module.graph
    known = {}
    for node in placeholders(graph_module):
        if not isinstance(node.meta["val"], torch.Tensor):
            continue
        for dim, size in enumerate(node.meta["val"].shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_symbol:
                known.setdefault(size.node.expr, (node, dim))
    last = placeholders(graph_module)[-1]
    for node in [n for n in placeholders(graph_module) if isinstance(n.meta["val"], torch.SymInt)]:
        expression = node.meta["val"].node.expr
        with graph.inserting_after(last):
            tracer = torch.fx.proxy.GraphAppendingTracer(graph)
            symbols = {symbol: torch.fx.Proxy(graph.call_function(torch.ops.aten.sym_size.int, known[symbol]), tracer)
                       for symbol in expression.free_symbols}
        first_use = next(user for user in graph.nodes if node in user.all_input_nodes)
        with graph.inserting_before(first_use):
            value = sympy_interp(PythonReferenceAnalysis, symbols, expression)
        for made in graph.nodes:
            if "val" not in made.meta and made.op == "call_function":
                made.meta["val"] = made.target(*torch.fx.node.map_arg(made.args, lambda n: n.meta["val"]))
        node.replace_all_uses_with(value.node)
        graph.erase_node(node)


def trace(stack, program, output):
    """The graph of a program's forward pass, and of the backward pass where a parameter asks for gradients."""
    named = {node.name: node.meta["val"] for node in program.graph.find_nodes(op="placeholder")}
    inputs = {name: named[name] for name in program.graph_signature.user_inputs}
    module = OneOutput(program.module(check_guards=False), output)
    joint = aot_export_joint_with_descriptors(stack, module, (), inputs, decompositions=select_decomp_table())
    return joint.graph_module, joint._aot_state.fw_metadata


def forward_outputs(graph_module):
    """What the forward pass gives, and the nodes of it; those kept for the backward pass last."""
    described, nodes, kept = [], [], {}
    for node, what in outputs(graph_module):
        if isinstance(what, aot.PlainAOTOutput):
            described.append(["output"])
        elif isinstance(what, aot.InputMutationAOTOutput) and isinstance(what.mutated_input, aot.BufferAOTInput):
            described.append(["buffer", name_of(what.mutated_input.target)])
        elif isinstance(what, (aot.SavedForBackwardsAOTOutput, aot.SavedForBackwardsNoVcCheckAOTOutput)):
            if node.op == "placeholder" or isinstance(node.meta["val"], torch.SymInt):
                continue
            kept[node.name] = ["saved", len(kept)]
            described.append(kept[node.name])
        else:
            raise SystemExit(f"the module cannot be compiled for training: it gives {what}")
        nodes.append(node)
    keep_outputs(graph_module, nodes)
    return described, kept


def backward_outputs(graph_module):
    given = [(node, what) for node, what in outputs(graph_module) if node is not None]
    for _, what in given:
        if not isinstance(what, aot.GradAOTOutput) or not isinstance(what.grad_of, aot.ParamAOTInput):
            raise SystemExit(f"the module cannot be compiled for training: its backward pass gives {what}")
    keep_outputs(graph_module, [node for node, _ in given])
    return [["tensor", name_of(what.grad_of.target)] for _, what in given]


def compile_graph(graph_module):
    """The shared object's bytes, and its table of operators that only libtorch has, or None."""
    arguments = tuple(node.meta["val"] for node in placeholders(graph_module))
    options = {"aot_inductor.package": True, "cpp.dynamic_threads": True}
    files = torch._inductor.aot_compile(graph_module, arguments, options=options)
    (library,) = [file for file in files if file.endswith(".so")]
    tables = [file for file in files if file.endswith(".json") and not file.endswith("_metadata.json")]
    with open(library, "rb") as file:
        code = without_umbrella(file.read())
    return code, open(tables[0], "rb").read() if tables else None


def without_umbrella(code):
    """Python's libtorch.so stands for all of PyTorch's libraries; code for a CPU needs libtorch_cpu.so."""
    code = bytearray(code)
    at, size, count = struct.unpack_from("<Q", code, 32)[0], *struct.unpack_from("<HH", code, 54)
    headers = [struct.unpack_from("<IIQQQQ", code, at + i * size) for i in range(count)]
    (dynamic,) = [header for header in headers if header[0] == 2]
    entries = [(place, *struct.unpack_from("<qQ", code, place))
               for place in range(dynamic[2], dynamic[2] + dynamic[5], 16)]
    address = next(value for _, tag, value in entries if tag == 5)
    table = next(h[2] + address - h[3] for h in headers if h[0] == 1 and h[3] <= address < h[3] + h[5])
    needed = {bytes(code[table + value : code.index(0, table + value)]): (place, value)
              for place, tag, value in entries if tag == 1}
    if b"libtorch.so" in needed:
        struct.pack_into("<q", code, needed[b"libtorch.so"][0] + 8, needed[b"libtorch_cpu.so"][1])
    for place, tag, _ in entries:
        if tag in (15, 29):  # where this machine keeps its libraries: looked for nowhere in particular
            struct.pack_into("<qQ", code, place, 0x6FFFFEF0, 0)
    return bytes(code)


def cpu_flags():
    with open("/proc/cpuinfo", encoding="ascii") as file:
        line = next((line for line in file if line.startswith("flags")), ":")
    return sorted(flag for flag in line.partition(":")[2].split() if flag.startswith(CPU_FLAGS))


def told_inputs(program):
    """Name, type and range of sizes of each input of forward()."""
    described = []
    named = {node.name: node.meta["val"] for node in program.graph.find_nodes(op="placeholder")}
    for name in program.graph_signature.user_inputs:
        sizes = []
        for size in named[name].shape:
            known = program.range_constraints.get(size.node.expr) if isinstance(size, torch.SymInt) else None
            least = int(known.lower) if known else 1 if isinstance(size, torch.SymInt) else size
            most = None if isinstance(size, torch.SymInt) and (not known or known.upper > 1 << 60) else \
                int(known.upper) if known else size
            sizes.append([least, most])
        described.append({"name": name, "dtype": DTYPES[named[name].dtype], "sizes": sizes})
    return described


def tensors_of(module):
    """Tables of all parameters and buffers, and the data of those that are no other one's."""
    described, data, seen = [], {}, {}
    kept = set(module.state_dict())
    for kind, items in (("parameter", module.named_parameters(remove_duplicate=False)),
                        ("buffer", module.named_buffers(remove_duplicate=False))):
        for name, tensor in items:
            entry = {"name": name, "kind": kind, "saved": name in kept, "trained": tensor.requires_grad}
            if id(tensor) in seen:
                entry["same_as"] = seen[id(tensor)]
            else:
                seen[id(tensor)] = name
                data[name] = tensor.detach().contiguous().clone()
            described.append(entry)
    return described, data


def compile_model(model, programs, out, output=""):
    """Writes `out`. `programs` are torch.export's of the model in train() and in eval()."""
    graphs, compiled = {}, {}
    with contextlib.ExitStack() as stack:
        joint, meta = trace(stack, programs["train"], output)
        with V.set_fake_mode(next(iter(placeholders(joint))).meta["val"].fake_mode):
            joint_graph_passes(joint)
        forward, backward = min_cut_rematerialization_partition(
            joint, None, num_fwd_outputs=meta.num_forward, static_lifetime_input_indices=meta.static_input_indices)
        described, kept = forward_outputs(forward)
        graphs["forward"] = {"inputs": [operand(node) for node in placeholders(forward)], "outputs": described}
        sizes_from_tensors(backward)
        graphs["backward"] = {"inputs": [kept.get(node.name) or operand(node) for node in placeholders(backward)],
                              "outputs": backward_outputs(backward)}
        compiled["forward"] = compile_graph(forward)
        compiled["backward"] = compile_graph(backward)
    with contextlib.ExitStack() as stack, torch.no_grad():
        graph, _ = trace(stack, programs["eval"], output)
        graphs["evaluate"] = {"outputs": forward_outputs(graph)[0]}
        graphs["evaluate"]["inputs"] = [operand(node) for node in placeholders(graph)]
        compiled["evaluate"] = compile_graph(graph)
    tensors, data = tensors_of(model)
    manifest = {"format": FORMAT, "torch": torch.__version__.partition("+")[0], "machine": platform.machine(),
                "cpu": cpu_flags(), "inputs": told_inputs(programs["train"]), "tensors": tensors, "programs": graphs}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        def add(name, content):
            archive.writestr(zipfile.ZipInfo(name), content)

        add("model.json", json.dumps(manifest, separators=(",", ":")))
        add("model.safetensors", safetensors.torch.save(data))
        for name, (code, table) in compiled.items():
            add(f"{name}.so", code)
            if table is not None:
                add(f"{name}.json", table)
    os.chmod(out, 0o644)
