#!/usr/bin/env python3
"""Where to run: configs, Accelerate's variables, `launch`, `config` and `env`.

    configs.py ACCEL_RUN CONFIGS
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import runs

ALONE = "distributed_type: 'NO'\nnum_processes: 1\nmixed_precision: bf16\ndebug: true\n"
# What srun gives a rank.
SRUN = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2"}


class Home(runs.Scratch):
    """A scratch folder that is also where Accelerate keeps its config."""

    def __init__(self, binary):
        super().__init__(binary)
        self.config = self.path / "home/accelerate/default_config.yaml"

    def ask(self, *words, answers="", **variables):
        """(exit code, standard output, standard error)."""
        environment = {name: value for name, value in runs.ENVIRONMENT.items()
                       if not name.startswith("ACCELERATE_")}
        environment.update(HF_HOME=str(self.path / "home"), **variables)
        done = subprocess.run([self.binary, *words], cwd=self.path, text=True, input=answers,
                              env=environment, capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def keep_default(self, text):
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(text)


def expect(report, name, found, wanted):
    report.check(name, found == wanted, f"{found}\nwanted:\n{wanted}")


def check_layers(binary, report):
    with Home(binary) as home:
        (home.path / "c.yaml").write_text(ALONE)
        expect(report, "the origin of a value is reported", home.ask(
            "why", "accelerator.mixed_precision", "job.yaml", "--config", "c.yaml",
            "accelerator.mixed_precision=no", ACCELERATE_MIXED_PRECISION="fp16"),
            (0, "accelerator.mixed_precision is no\n"
                "  environment ACCELERATE_MIXED_PRECISION sets accelerator.mixed_precision: fp16\n"
                "  c.yaml:3 sets accelerator.mixed_precision: bf16\n"
                "  argument 6 sets accelerator.mixed_precision: no\n", ""))
        code, shown, _ = home.ask("show", "job.yaml", "--config=c.yaml", ACCELERATE_DEBUG_MODE="0")
        report.check("a config is shown", code == 0 and "debug: collectives" in shown
                     and "# c.yaml:4" in shown, shown)
        (home.path / "job.yaml").write_text(runs.JOB.replace(
            "accelerator: {", "accelerator: {mixed_precision: fp16, "))
        code, shown, _ = home.ask("show", "job.yaml", "--config", "c.yaml")
        report.check("a recipe wins over it", "mixed_precision: fp16" in shown, shown)
        code, said, errors = home.ask("smoke", "--config", "c.yaml", "job.yaml")
        report.check("'smoke' takes a config", code == 0 and said.startswith("config c.yaml\n"), said + errors)
        home.ask("job.yaml", "train.until=1 steps", "checkpoint.every=never")
        code, _, errors = home.ask("resume", "runs/job", "train.until=2 steps", ACCELERATE_MIXED_PRECISION="bf16")
        report.check("a resumed run is its own recipe", code == 0
                     and "mixed_precision: fp16" in (home.run / "recipe.yaml").read_text(), errors)
        home.ask("--config", "c.yaml", "job.yaml", "name=flag_first", "train.until=1 steps", "checkpoint.every=never")
        report.check("a flag may come before the recipe", (home.path / "runs/flag_first").is_dir())


def check_errors(binary, report):
    with Home(binary) as home:
        (home.path / "c.yaml").write_text("distributed_type: XLA\nuse_cpu: 3\nnum_machines: 0\n")
        expect(report, "all that is wrong with a config is reported at once",
               home.ask("validate", "job.yaml", "modle=3", "--config", "c.yaml"),
               (2, "", "c.yaml:1:19: error: 'distributed_type: XLA' is not supported: accel-run does not"
                       " support TPUs\n    distributed_type: XLA\n                      ^\n"
                       "  hint: write 'distributed_type: MULTI_GPU' or MULTI_CPU\n"
                       "c.yaml:2:10: error: 'use_cpu: 3' is neither true nor false\n    use_cpu: 3\n"
                       "             ^\n"
                       "c.yaml:3:15: error: 'num_machines' must be between 1 and 65536, not 0\n    num_machines: 0\n"
                       "                  ^\n"
                       "argument 3: error: unknown option 'modle'\n    modle=3\n    ^\n"
                       "  hint: did you mean 'model'?\n"))
        expect(report, "a variable that is not supported is refused",
               home.ask("validate", "job.yaml", ACCELERATE_USE_FSDP="true", FSDP_STATE_DICT_TYPE="LOCAL_STATE_DICT"),
               (2, "", "environment FSDP_STATE_DICT_TYPE: error: 'FSDP_STATE_DICT_TYPE=LOCAL_STATE_DICT' is not"
                       " supported: files of flat local shards fit one number of ranks only\n"
                       "    FSDP_STATE_DICT_TYPE=LOCAL_STATE_DICT\n                         ^\n"
                       "  hint: write SHARDED_STATE_DICT, which any number of ranks reads\n"))
        expect(report, "a variable without effect is reported", home.ask("validate", "job.yaml", ACCELERATE_LOG_LEVEL="info"),
               (0, "job.yaml: valid\n", "warning: environment ACCELERATE_LOG_LEVEL: 'ACCELERATE_LOG_LEVEL=info'"
                                        " has no effect: accel-run has no log levels\n"))
        (home.path / "c.yaml").write_text("distributed_type: MULTI_CPU\nnum_processes: -1\n")
        unknown = (2, "", "c.yaml:2:16: error: the number of processes is not set\n    num_processes: -1\n"
                          "                   ^\n"
                          "  hint: add accelerator.num_processes=N, or 'num_processes' to this file\n")
        # A batch script has that variable too, and is no rank.
        for variables in ({}, {"SLURM_NTASKS": "2"}):
            expect(report, f"{variables or 'nobody'} does not say how many processes there are",
                   home.ask("validate", "job.yaml", "--config", "c.yaml", **variables), unknown)
        for words in (["accelerator.num_processes=2"], []):
            variables = {} if words else SRUN
            expect(report, f"but {words or variables} does",
                   home.ask("validate", "job.yaml", "--config", "c.yaml", *words, **variables),
                   (0, "config c.yaml\njob.yaml: valid\n", ""))
        expect(report, "no config", home.ask("validate", "job.yaml", "--config", "none.yaml"),
               (2, "", "error: cannot read the config 'none.yaml': No such file or directory\n"))


def check_sharding(binary, report):
    """One stage, by a config, a DeepSpeed file, variables and flags."""
    with Home(binary) as home:
        (home.path / "fsdp.yaml").write_text(
            "distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: SHARD_GRAD_OP}\nuse_cpu: true\n"
            "num_processes: 2\n")
        (home.path / "zero.json").write_text('{"zero_optimization": {"stage": 2, "sub_group_size": 1e9}}\n')
        (home.path / "zero.yaml").write_text(
            "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: zero.json}\nuse_cpu: true\n"
            "num_processes: 2\n")
        ways = [("show", "job.yaml", "--config", "fsdp.yaml"), ("show", "job.yaml", "--config", "zero.yaml")]
        for words in ways:
            code, shown, errors = home.ask(*words)
            report.check(f"{words[-1]} is stage 2", code == 0 and "stage: 2" in shown, shown + errors)
        code, shown, _ = home.ask("show", "job.yaml", ACCELERATE_USE_FSDP="1", FSDP_SHARDING_STRATEGY="SHARD_GRAD_OP")
        report.check("variables are stage 2", code == 0 and "stage: 2" in shown, shown)
        report.check("a key of the file without effect is said",
                     "zero.json:1:54: 'zero_optimization.sub_group_size: 1e9' has no effect" in errors, errors)
        code, shown, _ = home.ask("show", "job.yaml", "accelerator.fsdp.stage=3", "--config", "fsdp.yaml")
        report.check("the recipe's stage wins", code == 0 and "stage: 3" in shown, shown)
        (home.path / "job.yaml").write_text(runs.JOB.replace("accelerator: {", "accelerator: {fsdp: {stage: 1}, "))
        code, said, errors = home.ask("launch", "--use_fsdp", "--num_processes=2", "--config_file", "fsdp.yaml",
                                      "job.yaml", "train.until=1 steps", "checkpoint.every=never",
                                      "checkpoint.at_end=false")
        resolved = (home.run / "recipe.yaml").read_text() if code == 0 else ""
        report.check("a flag wins, and two ranks shard", code == 0 and "stage: 3" in resolved, said + errors)
        (home.path / "cpu.yaml").write_text(
            "distributed_type: FSDP\nfsdp_config:\n  fsdp_reshard_after_forward: SHARD_GRAD_OP\n"
            "  fsdp_offload_params: true\nuse_cpu: true\nnum_processes: 2\n")
        code, shown, errors = home.ask("import", "cpu.yaml")
        report.check("the import says what Accelerate does silently", code == 0 and "stage: 2" in shown
                     and "offload: cpu               # cpu.yaml:4" in shown
                     and "Accelerate trains FSDP on CPU ranks data parallel" in errors
                     and "drops a strategy in 'reshard_after_forward'" in errors, shown + errors)


def check_launch(binary, report):
    one_step = ["train.until=1 steps", "checkpoint.at_end=false", "checkpoint.every=never"]
    with Home(binary) as home:
        home.keep_default(ALONE)
        code, said, errors = home.ask("job.yaml", *one_step)
        resolved = (home.run / "recipe.yaml").read_text()
        report.check("without 'launch' the default config is not read",
                     code == 0 and "mixed_precision: no" in resolved.replace("'", ""), errors)
        code, said, errors = home.ask("launch", "--max-restarts", "3", "job.yaml", "name=other", *one_step)
        resolved = (home.path / "runs/other/recipe.yaml").read_text()
        report.check("'launch' reads it and says so", code == 0 and said.startswith(f"config {home.config}\n"), said + errors)
        report.check("and takes it over", f"mixed_precision: bf16" in resolved and f"{home.config}:3" in resolved
                     and "max_restarts: 3" in resolved and "# argument 2" in resolved, resolved)
        code, said, errors = home.ask("launch", "--cpu", "job.yaml", "name=third", *one_step)
        report.check("but not with --cpu", code == 0 and "config" not in said.splitlines()[0], said + errors)
        (home.path / "c.yaml").write_text("distributed_type: 'NO'\ngradient_clipping: 0.5\n")
        code, said, errors = home.ask("launch", "--config_file", "c.yaml", "--gradient_clipping=0.25", "job.yaml",
                                      "name=fourth", *one_step)
        resolved = (home.path / "runs/fourth/recipe.yaml").read_text()
        report.check("a flag wins over a config", code == 0 and "max_grad_norm: 0.25" in resolved, said + errors)
        expect(report, "a flag that is not supported is refused",
               home.ask("launch", "--deepspeed_exclusion_filter=x", "job.yaml"),
               (2, "", "argument 2: error: '--deepspeed_exclusion_filter=x' is not supported: accel-run does not start"
                       " processes on other machines\n    --deepspeed_exclusion_filter=x\n"
                       "                                 ^\n"
                       "  hint: start accel-run once on each machine, with 'num_machines' and 'machine_rank'\n"))
        code, _, errors = home.ask("launch", "--machine_rank", "5", "job.yaml", "modle=3")
        report.check("problems name the arguments", code == 2 and errors.startswith(
            "argument 2: error: 'machine_rank' is 5, but there are 1 machines\n    --machine_rank 5\n")
            and "argument 5: error: unknown option 'modle'" in errors, errors)
        code, _, errors = home.ask("launch", "--num_machines", "1", "--main_process_ip", "n1", "job.yaml", "name=fifth", *one_step)
        report.check("an address of one machine is harmless", code == 0 and
                     "'main_process_ip' has no effect on one machine\n" in errors, errors)
        lone = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "ACCELERATE_USE_CPU": "true"}
        warning = ("warning: 'accelerate launch' set MASTER_ADDR for several ranks, but started one process: this run has one "
                   "rank; set 'accelerator.num_processes', or start with 'accel-run launch'\n")
        code, _, errors = home.ask("validate", "job.yaml", **lone)
        report.check("one process of a launcher for several is reported", code == 0 and warning in errors, errors)
        code, _, errors = home.ask("validate", "job.yaml", "accelerator.num_processes=2", **lone)
        report.check("but not where it starts them itself", code == 0 and warning not in errors, errors)
        code, said, _ = home.ask("launch", "--help")
        report.check("'launch --help' names the flags", code == 0 and "--num_processes VALUE" in said, said)


def check_questions(binary, report):
    with Home(binary) as home:
        code, said, _ = home.ask("config", answers="cpu\n1\n2\nno\nbf16\n\n")
        report.check("'config' writes where Accelerate looks", code == 0 and said.endswith(f"wrote {home.config}\n"), said)
        before = home.config.read_text()
        report.check("and what was answered", "num_processes: 2" in before and "'bf16'" in before, before)
        expect(report, "'config default' replaces nothing", home.ask("config", "default"),
               (2, "", f"error: there is already a config: '{home.config}'\n"
                       "  hint: 'accel-run config' asks again and replaces it\n"))
        code, _, errors = home.ask("config", answers="cpu\n")
        report.check("answers that end early write nothing", code == 2 and errors == (
            "error: the answers ended before the last question\n"
            "  hint: answer all of them; nothing was written\n") and home.config.read_text() == before, errors)
        code, said, _ = home.ask("config", "--config_file", "new/d.json", answers="\n\n\n\n")
        made = json.loads((home.path / "new/d.json").read_text())
        report.check("a .json file is JSON", code == 0 and made["distributed_type"] == "NO", said)
        home.ask("config", "--config_file", "shards.yaml", answers="cpu\n1\n2\nno\nno\n3\n2\nno\n\n\n1000\nfull\n")
        code, said, errors = home.ask("show", "job.yaml", "--config", "shards.yaml")
        report.check("a config that shards is one of the recipe's section", code == 0 and all(
            re.search(rf"\b{key}: {value} ", said) for key, value in (
                ("stage", 3), ("dp_shard", 2), ("reshard_after_forward", "false"), ("min_num_params", 1000),
                ("state_dict", "full"), ("num_processes", 2))), said + errors)
        home.ask("config", "--config_file", "gpus.yaml", answers="gpu\n1\n2\n\n\n\n\n")
        code, said, errors = home.ask("validate", "job.yaml", "--config", "gpus.yaml")
        reported_text = "warning: the recipe needs a GPU and this machine has none: it is validated for a machine with one\n"
        has_one = any(name[6:].isdigit() for name in os.listdir("/dev") if name.startswith("nvidia"))
        report.check("a config for GPUs is valid without", code == 0 and errors == ("" if has_one else reported_text), said + errors)
        code, said, _ = home.ask("config", "default", "--config-file=e.yaml", "--mixed_precision", "fp16")
        report.check("'config default' asks nothing", (code, said) == (0, "wrote e.yaml\n")
                     and "mixed_precision: 'fp16'" in (home.path / "e.yaml").read_text(), said)
        (home.path / "old.yaml").write_text("distributed_type: NO\nfp16: true\n")
        os.symlink("old.yaml", home.path / "link.yaml")
        code, said, _ = home.ask("config", "update", "--config_file", "link.yaml")
        report.check("'config update' keeps what a file says", code == 0
                     and "mixed_precision: 'fp16'" in (home.path / "old.yaml").read_text(), said)
        report.check("through a link", (home.path / "link.yaml").is_symlink())
        home.config.unlink()
        expect(report, "'config update' without a config", home.ask("config", "update"),
               (2, "", "error: there is no config to update\n"
                       "  hint: name one with --config_file, or make one with 'accel-run config'\n"))
        (home.path / "file").write_text("")
        code, _, errors = home.ask("config", "default", "--config_file", "file/f.yaml")
        report.check("a place that cannot be written to", code == 7 and errors.startswith(
            "error: cannot write the config 'file/f.yaml': "), errors)


def check_env(binary, report):
    with Home(binary) as home:
        home.keep_default(ALONE)
        code, said, errors = home.ask("env", ACCELERATE_USE_CPU="true", WANDB_API_KEY="hush")
        words = ("accel-run", "libtorch", "compiler", "kernel", "glibc", "cpu", "cores", "memory", "gpu", "config",
                 f"{home.config}\n  distributed_type: 'NO'\n", "ACCELERATE_USE_CPU", "(set)")
        missing = [word for word in words if word not in said]
        report.check("'env' prints what a report needs", code == 0 and not missing, f"{missing}\n{said}{errors}")
        report.check("and no secret", "hush" not in said, said)
        home.keep_default("distributed_type: [\n")
        code, said, _ = home.ask("env")
        report.check("also of a broken config", code == 0 and f"{home.config}\n  distributed_type: [\n" in said, said)


def check_shipped(binary, configs, report):
    variables = {"MACHINE_RANK": "1", "MAIN_ADDRESS": "10.0.0.1"}
    for config in sorted(configs.iterdir()):
        with Home(binary) as home:
            expect(report, f"{config.name} goes under a recipe",
                   home.ask("validate", "job.yaml", "--config", str(config), **variables),
                   (0, f"config {config}\njob.yaml: valid\n", ""))
            recipe = home.path / "with.yaml"
            recipe.write_text(f"include: ['{config}']\n{runs.JOB}")
            expect(report, f"{config.name} is included", home.ask("validate", "with.yaml", **variables),
                   (0, "with.yaml: valid\n", ""))
    with Home(binary) as home:
        code, _, errors = home.ask("validate", "job.yaml", "--config", str(configs / "machines_2.yaml"))
        report.check("a machine must say which it is", code == 2 and "MACHINE_RANK" in errors, errors)


def main():
    report = runs.Report()
    check_layers(sys.argv[1], report)
    check_errors(sys.argv[1], report)
    check_sharding(sys.argv[1], report)
    check_launch(sys.argv[1], report)
    check_questions(sys.argv[1], report)
    check_env(sys.argv[1], report)
    check_shipped(sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
