"""Random recipes of small jobs, each given by one number, and the data files that they read.

`Generator(schema, data).recipe(number)` returns a `Recipe`. Its `base` fits together: model, task, data,
optimizer, schedule and ranks are drawn from tables. Its `extras` are options drawn from the JSON Schema
of the program itself, which `validate` may refuse.
"""

import json
import pathlib
import random
import string
import struct
import zlib

STEPS = 12
WORDS = "a an the cat dog bird fish sees finds hears small big old red blue one two three and or then now".split()
# Options that name files, hosts, times or sizes of this machine, or decide the comparison itself.
EXCLUDED = {"path", "inputs", "targets", "tokenizer", "weights", "file", "adapter", "cache", "device", "gpu_ids", "until",
            "num_processes", "num_machines", "machine_rank", "main_process_port", "main_process_ip", "max_restarts",
            "timeout", "join_timeout", "deadline", "resume", "resume_step", "distributed_type", "uri", "name", "depth",
            "plugins", "seed", "type", "match", "num_cpu_threads_per_process", "at_end", "on_error", "steps",
            "debug", "split", "files", "config", "workers", "prefetch", "plan", "dir", "size", "image_size", "features",
            "embedding_size", "last"}
LARGEST = 4  # of whole numbers drawn from a range without an upper end


def png(pixels, side):
    """A greyscale image of side x side bytes."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    rows = b"".join(b"\0" + pixels[row * side:(row + 1) * side] for row in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def npy(dtype, shape, values):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    code = {"<f4": "f", "<i8": "q"}[dtype]
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}{code}", *values)


def tokenizer():
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: number for number, word in enumerate(special + WORDS + list(string.digits))}
    added = [{"id": vocabulary[word], "content": word, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for word in special]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}}


def write_data(folder):
    """The files that recipes of the generator read; the same bytes each time."""
    draw = random.Random(1)
    folder = pathlib.Path(folder)

    def sentence():
        return " ".join(draw.choice(WORDS) for _ in range(draw.randrange(2, 12)))

    def lines(name, rows):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    lines("texts.jsonl", [{"text": sentence(), "label": draw.choice(["bad", "good", "so-so"]), "score": draw.random()}
                          for _ in range(53)])
    lines("tags.jsonl", [{"tokens": words, "ner_tags": [draw.choice(["O", "B-X", "I-X"]) for _ in words]}
                         for words in (sentence().split() for _ in range(37))])
    (folder / "book.txt").write_text("\n".join(sentence() for _ in range(60)))
    (folder / "tokens.bin").write_bytes(struct.pack("<700H", *(draw.randrange(17) for _ in range(700))))
    rows = ["width,height,colour,wild,kind,weight"]
    for _ in range(59):
        width = draw.choice([f"{draw.random():.3f}", f"{draw.random():.3f}", ""])
        rows.append(f"{width},{draw.random():.3f},{draw.choice(['red', 'blue'])},{draw.choice(['yes', 'no'])},"
                    f"{draw.choice(['rose', 'daisy', 'tulip'])},{draw.random():.3f}")
    (folder / "table.csv").write_text("\n".join(rows) + "\n")
    numbers = [draw.gauss(0, 1) for _ in range(47 * 5)]
    (folder / "points.npy").write_bytes(npy("<f4", (47, 5), numbers))
    sums = [sum(numbers[i * 5:i * 5 + 5]) for i in range(47)]
    (folder / "sums.npy").write_bytes(npy("<f4", (47,), sums))
    (folder / "kinds.npy").write_bytes(npy("<i8", (47,), [int(total > 0) for total in sums]))
    (folder / "both.npy").write_bytes(npy("<f4", (47, 2), [x for total in sums for x in (total > 0, total)]))
    for kind in ("dark", "light"):
        (folder / "images" / kind).mkdir(parents=True)
        for number in range(14):
            low = 128 * (kind == "light")
            pixels = bytes(draw.randrange(low, low + 128) for _ in range(144))
            (folder / "images" / kind / f"{number}.png").write_bytes(png(pixels, 12))


class Recipe:
    def __init__(self, number, base, extras):
        self.number, self.base, self.extras = number, base, extras  # extras: [(path of keys, value)]

    def text(self, extras=True):
        tree = json.loads(json.dumps(self.base))
        for path, value in self.extras if extras else []:
            at = tree
            for key in path[:-1]:
                at = at.setdefault(key, {}) if isinstance(at, dict) else at[key]
            at[path[-1]] = value
        return "".join(f"{key}: {json.dumps(value)}\n" for key, value in tree.items())

    @property
    def ranks(self):
        return self.base["accelerator"].get("num_processes", 1)


class Schema:
    """The options of sections and components, as `accel-run schema` prints them."""

    def __init__(self, text):
        self.root = json.loads(text)

    def resolve(self, node):
        while "$ref" in node:
            node = self.root["$defs"][node["$ref"].rpartition("/")[2]]
        return node

    def branches(self, node):
        node = self.resolve(node)
        for branch in node.get("anyOf", [node]):
            branch = self.resolve(branch)
            yield from self.branches(branch) if "anyOf" in branch and "properties" not in branch else [branch]

    def options(self, node, chosen):
        """{name: schema} of a section, or of the component of type `chosen`."""
        found = {}
        for branch in self.branches(node):
            found |= branch.get("properties", {})
            for each in branch.get("allOf", []):
                if each.get("if", {}).get("properties", {}).get("type", {}).get("const") == chosen:
                    found |= each["then"].get("properties", {})
        return {name: option for name, option in found.items()
                if name[-1] not in "+!~" and name not in EXCLUDED and not option.get("deprecated")}

    def leaves(self, node, value, path=()):
        """(path, schema) of each option that can be set below a section or component of a recipe."""
        chosen = value if isinstance(value, str) else value.get("type") if isinstance(value, dict) else None
        for name, option in self.options(node, chosen).items():
            inside = value.get(name) if isinstance(value, dict) else None
            if isinstance(inside, list):
                continue
            if self.options(option, None) and not any("allOf" in branch for branch in self.branches(option)):
                yield from self.leaves(option, inside or {}, (*path, name))
            elif not isinstance(inside, dict):
                yield (*path, name), option

    def value(self, draw, option):
        """A value that the schema of an option permits; None where it says too little."""
        branch = draw.choice([b for b in self.branches(option) if "pattern" not in b] or [{}])
        if "enum" in branch:
            return draw.choice([value for value in branch["enum"] if value is not None])
        if "const" in branch:
            return branch["const"]
        kind = branch.get("type")
        low, high = branch.get("minimum", 0), branch.get("maximum")
        if kind == "boolean":
            return draw.random() < 0.5
        if kind == "integer":
            return draw.randint(low, low + LARGEST if high is None else min(high, low + LARGEST))
        if kind == "number":
            value = draw.choice([low, low + 0.001, low + 0.1, low + 0.5, low + 1])
            return value if high is None else min(value, high)
        if kind in (["string", "integer"], ["string", "integer", "array"]):
            return draw.choice(["1 step", "2 steps", "3 steps", "5 steps", "1 epoch", "20 samples", "25%", "never"])
        return None


class Generator:
    def __init__(self, schema, data):
        self.schema, self.data = Schema(schema), pathlib.Path(data)

    def recipe(self, number):
        draw = random.Random(number)
        base = getattr(self, "_" + draw.choice(FAMILIES))(draw)
        self.finish(draw, base)
        return Recipe(number, base, self.extras(draw, base))

    def extras(self, draw, base):
        """Options of the schema, in half of the recipes."""
        found = []
        for _ in range(draw.choice([0, 0, 1, 2])):
            section = draw.choice([key for key in base if key in self.schema.root["properties"]])
            if not isinstance(base[section], dict):
                continue
            leaves = list(self.schema.leaves(self.schema.root["properties"][section], base[section]))
            if not leaves:
                continue
            path, option = draw.choice(leaves)
            value = self.schema.value(draw, option)
            if value is not None:
                found.append(((section, *path), value))
        return found

    def path(self, name):
        return str(self.data / name)

    # The families: model, task and data that fit together.

    def _glyphs(self, draw):
        size = draw.choice([8, 12, 16])
        model = draw.choice([
            {"type": "mlp", "hidden_sizes": [draw.choice([8, 24])] * draw.randint(1, 3), "dropout": draw.choice([0, 0.3])},
            "linear", {"type": "lenet", "filters": [2, 3], "hidden_size": 8, "dropout": 0.2} if size == 16 else "linear",
            {"type": "resnet", "stem": "cifar", "embedding_size": 4},
            {"type": "vit", "patch_size": 4, "num_layers": 2, "num_heads": 2, "hidden_size": 16, "dropout": 0.1}])
        train = {"type": "synthetic/glyphs", "length": draw.choice([30, 44, 64]), "size": size}
        transforms = draw.sample([
            {"type": "random_crop", "size": size, "padding": 2}, {"type": "random_erase", "p": 0.5},
            {"type": "random_flip"}, {"type": "normalize", "mean": [0.2], "std": [0.4]}], draw.randrange(4))
        base = {"model": model, "data": {"train": train, "transform": transforms}}
        if draw.random() < 0.2:
            base["data"]["train"] = [{**train, "weight": 2}, {**train, "length": 17, "weight": 1}]
        held_out(draw, base, {**train, "length": 16})
        if draw.random() < 0.2:
            base["task"] = {"type": "regression"}
            transforms.append("one_hot")
        elif isinstance(model, dict) and model["type"] == "mlp" and draw.random() < 0.3:
            base["task"] = {"type": "distill", "alpha": 0.5, "teacher": {"type": "mlp", "hidden_sizes": [8], "dropout": 0.1}}
        return base

    def _images(self, draw):
        transforms = [{"type": "resize", "size": [12, 12]}, "grayscale"] + draw.sample(
            [{"type": "random_crop", "size": 8}, "random_flip", {"type": "normalize", "mean": [0.4], "std": [0.3]}],
            draw.randrange(4))
        model = draw.choice([{"type": "mlp", "hidden_sizes": [8]}, {"type": "resnet", "embedding_size": 4},
                             {"type": "vit", "patch_size": 4, "num_layers": 1, "num_heads": 2, "hidden_size": 16}])
        return {"model": model, "data": {"train": {"type": "image_folder", "path": self.path("images")},
                                         "split": {"eval": "25%"}, "transform": transforms}}

    def _table(self, draw):
        number = draw.random() < 0.3
        train = {"type": "csv", "path": self.path("table.csv"), "target": "weight" if number else "kind",
                 "one_hot": {"colour": []}, "booleans": ["wild"], "fill": draw.choice(["mean", "median", 0, "drop"])}
        train["features"] = ["width", "height", "colour", "wild"]
        if number:
            train["target_type"] = "number"
        model = draw.choice([{"type": "mlp", "hidden_sizes": [12], "dropout": draw.choice([0, 0.2])}, "linear"])
        return {"model": model, "data": {"train": train, "split": {"eval": draw.choice([9, "20%"])}}}

    def _arrays(self, draw):
        train = {"type": "npy", "inputs": self.path("points.npy"), "targets": self.path("sums.npy")}
        base = {"model": {"type": "mlp", "hidden_sizes": [12], "activation": "tanh"}, "data": {"train": train}}
        what = draw.choice(["sums", "kinds", "both"])
        train["targets"] = self.path(what + ".npy")
        if what == "sums":
            base["task"] = {"type": "regression", "loss": draw.choice(["mse", "mae", "huber"])}
        if what == "both":
            base["model"] = {"type": "heads", "trunk": {"type": "mlp", "hidden_sizes": [8]}, "features": 6,
                             "outputs": {"sign": 2, "sum": 1}}
            base["task"] = {"type": "multi_head", "heads": {
                "sign": {"loss": "cross_entropy", "column": 0}, "sum": {"loss": "mse", "column": 1, "weight": 0.5}}}
        base["data"]["split"] = {"eval": draw.choice(["20%", 8])}
        return base

    def _line(self, draw):
        train = {"type": "synthetic/regression", "length": 40, "features": draw.randint(1, 3)}
        base = {"model": "linear", "task": {"type": "regression"}, "data": {"train": train}}
        held_out(draw, base, {**train, "length": 16})
        return base

    def _language(self, draw):
        data = draw.choice([
            {"type": "synthetic/addition", "length": 50},
            {"type": "text", "path": self.path("book.txt"), "level": draw.choice(["chars", "bytes"]), "max_seq_len": 16},
            {"type": "text", "path": self.path("book.txt"), "level": "tokens", "tokenizer": self.path("tokenizer.json"),
             "max_seq_len": 8},
            {"type": "tokens", "path": self.path("tokens.bin"), "vocab_size": 17, "max_seq_len": 12},
            {"type": "jsonl", "path": self.path("texts.jsonl"), "tokenizer": self.path("tokenizer.json"), "max_length": 12}])
        model = {"num_layers": draw.randint(1, 3), "num_heads": 2, "hidden_size": 16}
        if draw.random() < 0.5:
            model |= {"type": "gpt", "dropout": draw.choice([0, 0.1])}
        else:
            model |= {"type": "llama", "num_kv_heads": draw.choice([1, 2]), "tie_embeddings": draw.random() < 0.5}
        lora(draw, model)
        base = {"model": model, "data": {"train": data}}
        if data["type"] == "jsonl" and draw.random() < 0.4:
            base["data"]["loader"] = {"group_by_length": True}
        held_out(draw, base, data)
        if draw.random() < 0.3 and data["type"] == "text":
            base["callbacks"] = [{"type": "generate", "prompts": ["a cat"], "max_new_tokens": 4}]
        return base

    def _encoder(self, draw):
        model = {"type": draw.choice(["bert", "roberta", "distilbert"]), "num_layers": draw.randint(1, 2), "num_heads": 2,
                 "hidden_size": 16}
        data = {"type": "jsonl", "path": self.path("texts.jsonl"), "tokenizer": self.path("tokenizer.json"),
                "max_length": draw.choice([8, 14])}
        base = {"model": model, "data": {"train": data}}
        what = draw.choice(["classes", "numbers", "masked", "tags"])
        if what == "classes":
            data["target"] = "label"
        if what == "numbers":
            data |= {"target": "score", "target_type": "number"}
            base["task"] = {"type": "regression"}
        if what == "masked":
            base["task"] = "masked_lm"
            base["data"]["transform"] = ["mask_tokens"]
        if what == "tags":
            base["task"] = "token_classification"
            base["data"]["train"] = data = {"type": "token_classification", "path": self.path("tags.jsonl"),
                                            "tokenizer": self.path("tokenizer.json"), "max_length": 12}
        if what in ("classes", "tags"):
            lora(draw, model)
        base["data"]["split"] = {"eval": 10}
        return base

    def _gan(self, draw):
        optimizer = {"type": "adam", "lr": 0.002}
        base = {"model": {"type": "dcgan_generator", "latent": 4, "features": 2},
                "task": {"type": "gan", "discriminator": {"type": "dcgan_discriminator", "features": 2},
                         "discriminator_optimizer": optimizer, "generator_every": draw.randint(1, 2)},
                "data": {"train": {"type": "synthetic/glyphs", "length": 40, "size": 8},
                         "transform": [{"type": "normalize", "mean": [0.5], "std": [0.5]}]}}
        held_out(draw, base, {"type": "synthetic/glyphs", "length": 12, "size": 8})
        return base

    def _cart_pole(self, draw):
        return {"model": {"type": "mlp", "hidden_sizes": [8]}, "task": {"type": "reinforce", "max_episode_steps": 20},
                "data": {"train": {"type": "synthetic/cart_pole", "length": 64},
                         "eval": {"type": "synthetic/cart_pole", "length": 8}}}

    # What every family has.

    def finish(self, draw, base):
        base["seed"] = draw.randrange(100)
        base["optimizer"] = optimizer(draw, base)
        has_eval = "eval" in base["data"] or "split" in base["data"]
        schedule = scheduler(draw, has_eval)
        if schedule:
            base["scheduler"] = schedule
        base["train"] = train(draw, base)
        base["accelerator"] = accelerator(draw, base)
        base["eval"] = {"every": draw.choice([period(draw), period(draw), "never"])}
        if draw.random() < 0.2:
            base["eval"]["at_start"] = True
        base["checkpoint"] = {"every": period(draw), "async": draw.random() < 0.6, "keep": {"last": draw.randint(1, 3)}}
        if has_eval and draw.random() < 0.3:
            base["checkpoint"]["keep"]["best"] = 1
        callbacks = base.get("callbacks", [])
        if draw.random() < 0.3 and "local_sgd" not in base["accelerator"]:
            callbacks.append({"type": "ema", "decay": 0.9, "warmup": draw.random() < 0.5, "every": draw.choice(["1 step", "3 steps"])})
        if has_eval and draw.random() < 0.3:
            callbacks.append({"type": "early_stop", "patience": draw.choice([1, 2, 50])})
        base["callbacks"] = callbacks
        base["trackers"] = ["csv", "tensorboard"] + draw.sample(["dvclive", "mlflow"], draw.randrange(3))
        base["log"] = {"every": period(draw), "plan": draw.random() < 0.3}
        if draw.random() < 0.2:
            base["log"]["histograms"] = "4 steps"
        loader = base["data"].setdefault("loader", {})
        loader.update(workers=draw.choice([0, 1, 2]), drop_last=draw.random() < 0.2, shuffle=draw.random() < 0.9)
        if base["accelerator"].get("num_processes", 1) > 1 and draw.random() < 0.3:
            loader[draw.choice(["even_batches", "dispatch_batches"])] = True
            loader["split_batches"] = draw.random() < 0.5
        if base["accelerator"].get("num_processes", 1) == 1 and draw.random() < 0.3:
            base["compat"] = compat(draw, base["data"])


FAMILIES = [name[1:] for name in vars(Generator) if name[0] == "_" and name[1] != "_"] + ["language", "encoder", "glyphs"]


def period(draw):
    """A period in one of the units of durations."""
    return draw.choice(["1 step", "2 steps", "3 steps", "4 steps", "5 steps", "1 epoch", "20 samples", "20%", ["3 steps", "1 epoch"]])


def held_out(draw, base, dataset):
    """Eval data of its own, a share of the training data, or none."""
    which = draw.choice(["eval", "eval", "split", "none"])
    if which == "eval":
        base["data"]["eval"] = dataset
    if which == "split":
        base["data"]["split"] = {"eval": draw.choice(["20%", 7])}


def lora(draw, model):
    if draw.random() < 0.25:
        model["lora"] = {"rank": 2, "alpha": 4, "dropout": draw.choice([0, 0.1])}


def optimizer(draw, base):
    kind = draw.choice(["adamw", "adamw", "adam", "sgd", "lion", "adafactor", "adagrad", "rmsprop", "muon"])
    found = {"type": kind, "lr": draw.choice([0.001, 0.003, 0.01])}
    if kind == "sgd":
        found["momentum"] = draw.choice([0, 0.9])
    if draw.random() < 0.25:
        found["groups"] = [{"match": draw.choice(["*bias", "*weight"]), "weight_decay": 0.1, "lr": 0.002}]
    blocks = isinstance(base["model"], dict) and "num_layers" in base["model"]
    if blocks and draw.random() < 0.2:
        found["layer_decay"] = 0.7
    return found


def scheduler(draw, has_eval):
    phase = [{"type": "cosine"}, {"type": "linear", "to": 0.1}, {"type": "constant", "warmup": "3 steps"},
             {"type": "exponential", "every": "4 steps"}, {"type": "polynomial", "power": 2}]
    choices = phase + [{"type": "step", "every": "5 steps"}, {"type": "multistep", "milestones": ["50%", "75%"]}, "one_cycle",
                       {"type": "inverse_sqrt", "warmup": "2 steps"}, {"type": "wsd", "warmup": "10%", "decay": "30%"},
                       {"type": "plateau", "patience": 0} if has_eval else None, None]
    if draw.random() < 0.2:
        return [{**phase[draw.randrange(len(phase))], "for": "5 steps"}, draw.choice(phase)]
    return draw.choice(choices)


def train(draw, base):
    found = {"until": draw.choice([f"{STEPS} steps", f"{STEPS} steps", "2 epochs", [f"{STEPS} steps", "3 epochs"]]),
             "batch": draw.choice([6, 8, 12])}
    if draw.random() < 0.6:
        found["micro_batch"] = draw.choice([1, 2, found["batch"] // 2, found["batch"]])
    if draw.random() < 0.4:
        found["max_grad_norm"] = draw.choice([0.1, 1.0])
    if draw.random() < 0.1:
        found["max_grad_value"] = 0.5
    if draw.random() < 0.15:
        found["freeze"] = ["*bias"]
    if isinstance(base["model"], dict) and "num_layers" in base["model"] and draw.random() < 0.4:
        found["activation_checkpointing"] = "blocks"
    return found


def compat(draw, data):
    parts = data["train"] if isinstance(data["train"], list) else [data["train"]]
    weighted = any(isinstance(part, dict) and "weight" in part for part in parts)
    found = {"dataloader_generator": "shared"}
    if data["loader"]["shuffle"] and not weighted and not data["loader"].get("group_by_length"):
        found["use_seedable_sampler"] = draw.random() < 0.5
    return found


def accelerator(draw, base):
    found = {"num_cpu_threads_per_process": 1, "mixed_precision": draw.choice(["no", "no", "bf16", "fp16"])}
    if found["mixed_precision"] == "fp16":
        found["grad_scaler"] = {"init_scale": draw.choice([1024, 65536, 1e12]), "growth_interval": draw.choice([2, 2000])}
    ranks = draw.choice([1, 1, 1, 2, 2, 3])
    if ranks == 1:
        return found
    found["num_processes"] = ranks
    base["train"]["micro_batch"] = draw.choice([1, 2])
    base["train"]["batch"] = ranks * base["train"]["micro_batch"] * draw.randint(1, 3)
    choices = ["ddp", "fp16", "bf16"] + ["canonical"] * (ranks == 2)
    if found["mixed_precision"] != "fp16":
        choices += ["power_sgd", "local_sgd"]
    strategy = draw.choice(choices)
    if strategy in ("fp16", "bf16"):
        found["ddp"] = {"comm_hook": strategy}
    if strategy == "power_sgd":
        found["ddp"] = {"comm_hook": "power_sgd", "power_sgd": {"rank": 1, "start": "3 steps", "min_compression_rate": 0.1}}
    if strategy == "local_sgd":
        found["local_sgd"] = {"every": draw.choice(["2 steps", "4 steps"])}
    if strategy == "canonical":
        found["reduction"] = "canonical"
    return found
