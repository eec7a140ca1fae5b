#!/usr/bin/env python3
"""Configs, both ways: Accelerate reads what accel-run writes, and accel-run what Accelerate writes;
every key and every flag of Accelerate's is known.   check_configs.py ACCEL_RUN
"""

import dataclasses
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import transformers
import yaml
from accelerate.commands.config.config_args import ClusterConfig, SageMakerConfig, load_config_from_file
from accelerate.commands.config.default import write_basic_config
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env

RECIPE = Path(__file__).resolve().parents[2] / "recipes/tiny/regression.yaml"

# Answers to `accel-run config`, and what Accelerate makes of the file, defaults left out.
ANSWERS = {
    "\n\n\n\n": {"distributed_type": "NO", "num_processes": 1, "gpu_ids": "all"},
    "one\nno\n2\nfp16\n": {"distributed_type": "NO", "num_processes": 1, "gpu_ids": "2", "mixed_precision": "fp16"},
    "one\nyes\nbf16\n": {"distributed_type": "NO", "num_processes": 1, "use_cpu": True, "mixed_precision": "bf16"},
    "cpu\n\n\n\nfp16\n\n": {"distributed_type": "MULTI_CPU", "num_processes": 2, "use_cpu": True,
                          "mixed_precision": "fp16"},
    "cpu\n2\n1\n10\n29501\n6\nyes\nno\nnone\n": {
        "distributed_type": "MULTI_CPU", "num_processes": 6, "num_machines": 2, "machine_rank": 1, "use_cpu": True,
        "main_process_ip": "10", "main_process_port": 29501, "debug": True},
    "gpu\n\n8\n\n\nbf16\n\n": {"distributed_type": "MULTI_GPU", "num_processes": 8, "gpu_ids": "all",
                            "mixed_precision": "bf16"},
    "gpu\n2\n1\nnode0\n\n4\n\n2, 3\n\n\n": {
        "distributed_type": "MULTI_GPU", "num_processes": 4, "num_machines": 2, "machine_rank": 1, "gpu_ids": "2,3",
        "main_process_ip": "node0", "main_process_port": 29500},
}
ALWAYS = {"compute_environment": "LOCAL_MACHINE", "debug": False, "downcast_bf16": "no", "enable_cpu_affinity": False,
          "machine_rank": 0, "main_training_function": "main", "mixed_precision": "no", "num_machines": 1,
          "rdzv_backend": "static", "same_network": True, "tpu_use_cluster": False, "tpu_use_sudo": False,
          "use_cpu": False}

# Configs as Accelerate's own class writes them, and what the recipe then says.
WRITTEN = (
    (dict(compute_environment="LOCAL_MACHINE", distributed_type="MULTI_CPU", mixed_precision="bf16", use_cpu=True,
          debug=True, num_processes=4, num_machines=2, machine_rank=1, main_process_ip="node0",
          main_process_port=29500, same_network=True, downcast_bf16="no"),
     {"distributed_type": "multi_cpu", "device": "cpu", "mixed_precision": "bf16", "debug": "collectives",
      "num_processes": 4, "num_machines": 2, "machine_rank": 1, "main_process_ip": "node0",
      "main_process_port": 29500}),
    (dict(compute_environment="LOCAL_MACHINE", distributed_type="NO", mixed_precision="no", use_cpu=False,
          debug=False, num_processes=1, tpu_env=[], gpu_ids="all"),
     {"num_processes": 1, "mixed_precision": "no"}),
)


# Configs that shard, and the stage and mesh that Accelerate then trains with.
SHARDED = (
    ("fsdp", "fsdp_version: 2, fsdp_reshard_after_forward: true", 3),
    ("fsdp", "fsdp_version: 2, fsdp_reshard_after_forward: false", 2),
    ("fsdp", "fsdp_sharding_strategy: FULL_SHARD, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP, "
             "fsdp_transformer_layer_cls_to_wrap: GPT2Block, fsdp_activation_checkpointing: true", 3),
    ("fsdp", "fsdp_sharding_strategy: SHARD_GRAD_OP, fsdp_backward_prefetch: BACKWARD_PRE", 2),
    ("fsdp", "sharding_strategy: 2, use_orig_params: true", 2),
    ("fsdp", "fsdp_sharding_strategy: NO_SHARD", 0),
    ("deepspeed", "zero_stage: 1, gradient_accumulation_steps: 2, gradient_clipping: 0.5", 1),
    ("deepspeed", "zero_stage: 3, zero3_init_flag: true, offload_optimizer_device: none", 3),
)
# Families of transformers whose blocks accel-run has, with the classes that FSDP wraps.
FAMILIES = ("CLIP", "Gemma", "Gemma2", "Gemma3", "GPT2", "GPTNeoX", "Llama", "Mistral", "Mixtral", "ModernBert", "MT5",
            "OPT", "Phi3", "Qwen2", "Qwen2Moe", "Qwen3", "Qwen3Moe", "SmolLM3", "T5", "ViT")


class Bench:
    def __init__(self, binary):
        self.binary = Path(binary).resolve()
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("ACCELERATE_", "FSDP_"))}

    def run(self, *words, answers="", code=0):
        done = subprocess.run([self.binary, *words], input=answers, text=True, capture_output=True, check=False,
                              env=self.environment)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout, done.stderr

    def shown(self, config):
        """The section `accelerator` of a recipe over the config."""
        section = yaml.safe_load(self.run("show", RECIPE, "--config", config)[0])["accelerator"]
        # Python's YAML takes the word no for false.
        return {key: "no" if value is False and key == "mixed_precision" else value for key, value in section.items()}


def check_ours(bench, folder):
    for number, (answers, wanted) in enumerate(ANSWERS.items()):
        for ending in (".yaml", ".json"):
            path = f"{folder}/ours{number}{ending}"
            bench.run("config", "--config_file", path, answers=answers)
            found = load_config_from_file(path).to_dict()
            assert found == {**ALWAYS, **wanted}, (answers, found)
            section = bench.shown(path)
            assert section["num_processes"] == wanted["num_processes"], section
            assert section["mixed_precision"] == {**ALWAYS, **wanted}["mixed_precision"], section
            assert section["gpu_ids"] == wanted.get("gpu_ids", "all"), section
            kind = "auto" if wanted["distributed_type"] == "NO" else wanted["distributed_type"].lower()
            assert section["distributed_type"] == kind, section
    for precision in ("no", "fp16", "bf16"):
        path = f"{folder}/default_{precision}.yaml"
        bench.run("config", "default", "--config_file", path, "--mixed_precision", precision)
        found = load_config_from_file(path).to_dict()
        assert found == {**ALWAYS, "distributed_type": "NO", "num_processes": 1, "use_cpu": True,
                         "mixed_precision": precision}, found


def check_theirs(bench, folder):
    for number, (fields, wanted) in enumerate(WRITTEN):
        for ending in (".yaml", ".json"):
            path = f"{folder}/theirs{number}{ending}"
            config = ClusterConfig(**fields)
            (config.to_json_file if ending == ".json" else config.to_yaml_file)(path)
            section = bench.shown(path)
            found = {key: section[key] for key in wanted}
            assert found == wanted, (path, found)
            before = load_config_from_file(path).to_dict()
            bench.run("config", "update", "--config_file", path)
            after = load_config_from_file(path).to_dict()
            assert after == before, (path, before, after)
    path = f"{folder}/basic.yaml"
    write_basic_config("bf16", path)
    if load_config_from_file(path).use_cpu:  # a machine without GPUs
        assert bench.shown(path)["mixed_precision"] == "bf16"


def check_keys(bench, folder):
    """A value that no key has is reported for each key that Accelerate reads; no key is unknown."""
    path = Path(folder) / "key.yaml"
    for field in {*dataclasses.fields(ClusterConfig), *dataclasses.fields(SageMakerConfig)}:
        line = "" if field.name == "distributed_type" else "distributed_type: 'NO'\n"
        path.write_text(f"{line}{field.name}: strange\n")
        done = subprocess.run([bench.binary, "validate", RECIPE, "--config", path], text=True, capture_output=True,
                              check=False, env=bench.environment)
        assert "unknown option" not in done.stderr, done.stderr
        silent = field.name == "main_process_ip"  # an address may be anything
        assert silent or f"'{field.name}" in done.stderr, (field.name, done.stderr)


def launched(path):
    """The variables that `accelerate launch` sets for a config, and its arguments."""
    args, _, _ = _validate_launch_command(launch_command_parser().parse_args(["--config_file", path, "script.py"]))
    args.deepspeed_fields_from_accelerate_config = ""
    made = prepare_deepspeed_cmd_env(args)[1] if args.use_deepspeed else prepare_multi_gpu_env(args)
    return {name: value for name, value in made.items()
            if name.startswith(("ACCELERATE_", "FSDP_", "PARALLELISM_CONFIG_"))}


def check_sharded(bench, folder):
    """A config and the variables that Accelerate makes of it give the same options."""
    for number, (kind, keys, stage) in enumerate(SHARDED):
        path = f"{folder}/sharded{number}.yaml"
        Path(path).write_text(f"compute_environment: LOCAL_MACHINE\ndistributed_type: {kind.upper()}\n"
                              f"{kind}_config: {{{keys}}}\nnum_processes: 2\nmixed_precision: 'no'\n")
        recipe = yaml.safe_load(bench.run("show", RECIPE, "--config", path)[0])
        assert recipe["accelerator"]["fsdp"]["stage"] == stage, (keys, recipe["accelerator"]["fsdp"])
        environment, bench.environment = bench.environment, {**bench.environment, **launched(path)}
        by_variables = yaml.safe_load(bench.run("show", RECIPE, "accelerator.num_processes=2",
                                                "accelerator.distributed_type=multi_gpu")[0])
        bench.environment = environment
        assert by_variables["accelerator"]["fsdp"] == recipe["accelerator"]["fsdp"], keys
        assert by_variables["train"] == recipe["train"], keys


def check_blocks(bench, folder):
    """The classes that transformers' models tell FSDP to wrap are accepted."""
    path = Path(folder) / "blocks.yaml"
    for family in FAMILIES:
        for block in getattr(transformers, f"{family}PreTrainedModel")._no_split_modules:
            if block.endswith("Embeddings"):
                continue
            path.write_text("distributed_type: FSDP\nnum_processes: 2\nfsdp_config: {fsdp_auto_wrap_policy: "
                            f"TRANSFORMER_BASED_WRAP, fsdp_transformer_layer_cls_to_wrap: {block}}}\n")
            bench.run("show", RECIPE, "--config", path)


def check_flags(bench):
    words = [word for action in launch_command_parser()._actions for word in action.option_strings]
    assert len(words) > 100, words
    for word in words:
        done = subprocess.run([bench.binary, "launch", word], text=True, capture_output=True, check=False,
                              env=bench.environment)
        assert "has no flag" not in done.stderr, done.stderr


def main():
    bench = Bench(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        check_ours(bench, folder)
        check_theirs(bench, folder)
        check_keys(bench, folder)
        check_flags(bench)
        check_sharded(bench, folder)
        check_blocks(bench, folder)
    print("configs are read both ways, and every key and flag of Accelerate's is known")


if __name__ == "__main__":
    main()
