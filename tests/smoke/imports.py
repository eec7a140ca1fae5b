#!/usr/bin/env python3
"""Configs of other trainers become recipes that validate, and train.   imports.py ACCEL_RUN RECIPES_FOLDER"""

import json
import pathlib
import shutil
import sys

import runs

TRAINER = {"output_dir": "theirs", "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
           "num_train_epochs": 1.0, "learning_rate": 0.01, "lr_scheduler_type": "cosine", "warmup_steps": 2,
           "seed": 7, "use_cpu": True, "hub_token": "hf_secret", "report_to": ["tensorboard"], "fp16": False,
           "gradient_checkpointing": True}

AXOLOTL = """base_model: ./gpt2
datasets: [{path: reviews.jsonl, type: completion, field: text}]
sequence_len: 8
val_set_size: 0.1
sample_packing: true
micro_batch_size: 4
gradient_accumulation_steps: 2
num_epochs: 1
optimizer: adamw_torch
lr_scheduler: cosine
learning_rate: 0.001
adapter: lora
"""

QLORA = AXOLOTL.replace("adapter: lora", "adapter: qlora\nload_in_8bit: true")
BLOOM = AXOLOTL.replace("./gpt2", "bigscience/bloom-560m")

TRL = """model_name_or_path: ./gpt2
dataset_name: reviews.jsonl
use_peft: true
max_steps: 3
per_device_train_batch_size: 4
"""

TORCHTUNE = """output_dir: out
model: {_component_: torchtune.models.llama3_2.llama3_2_1b}
checkpointer: {_component_: torchtune.training.FullModelHFCheckpointer, checkpoint_dir: ./gpt2}
tokenizer: {_component_: a.b, max_seq_len: 8}
dataset: {_component_: torchtune.datasets.text_completion_dataset, data_files: reviews.jsonl, column: text}
batch_size: 4
epochs: 1
max_steps_per_epoch: 2
optimizer: {_component_: torch.optim.AdamW, lr: 1e-3}
lr_scheduler: {_component_: x.get_cosine_schedule_with_warmup, num_warmup_steps: 1}
loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss}
dtype: fp32
"""

ACCELERATE = """compute_environment: LOCAL_MACHINE
distributed_type: MULTI_CPU
num_processes: 2
mixed_precision: bf16
gpu_ids: "0"
"""


def main():
    report = runs.Report()
    recipes = pathlib.Path(sys.argv[2]).resolve()

    def done(name, result, *words):
        code, errors = result
        report.check(name, code == 0 and all(word in errors for word in words), f"exit {code}\n{errors}")

    with runs.Scratch(sys.argv[1]) as scratch:
        shutil.copytree(recipes / "tiny/data/gpt2", scratch.path / "gpt2")
        shutil.copy(recipes / "tiny/data/reviews.jsonl", scratch.path)
        (scratch.path / "args.json").write_text(json.dumps(TRAINER))
        (scratch.path / "axolotl.yaml").write_text(AXOLOTL)
        (scratch.path / "tune.yaml").write_text(TORCHTUNE)
        (scratch.path / "accelerate.yaml").write_text(ACCELERATE)

        done("TrainingArguments", scratch.call("import", "args.json", "--to", "trainer.yaml"),
             "args.json: a config of trainer, recognized by per_device_train_batch_size\n", "wrote trainer.yaml\n",
             "  args.json:1:1", ": report_to -> trackers\n", ": gradient_checkpointing -> train.activation_checkpointing\n",
             "missing:\n  'model': TrainingArguments have no model\n", "still to do:\n", "'model' is missing")
        text = (scratch.path / "trainer.yaml").read_text()
        report.check("without the token", "hf_secret" not in text, text)
        report.check("gradient_checkpointing is in the recipe", "  activation_checkpointing: blocks " in text, text)
        model = "model={type: vit, patch: 4, hidden_size: 8, num_layers: 2, num_heads: 2}"
        done("with model and data they train", scratch.call("trainer.yaml", model, "train.until=2 steps",
                                                            "data.train={type: synthetic/glyphs, length: 32}"))
        shutil.copy(recipes / "tiny/data/reviews_tokenizer.json", scratch.path / "gpt2/tokenizer.json")
        done("axolotl", scratch.call("import", "axolotl.yaml", "--to", "a.yaml"),
             "  axolotl.yaml:1: base_model -> vars.model\n", "  axolotl.yaml:12: adapter\n",
             "defaults of axolotl:\n", "  model.lora.target_modules: ['*.c_attn'] (lora_target_modules)\n")
        text = (scratch.path / "a.yaml").read_text()
        report.check("its adapter is in the recipe", "  lora:\n    rank: 8 " in text and "'*.c_attn'" in text, text)
        (scratch.path / "qlora.yaml").write_text(QLORA)
        (scratch.path / "bloom.yaml").write_text(BLOOM)
        (scratch.path / "trl.yaml").write_text(TRL)
        for name, words in {"qlora.yaml": ("qlora.yaml:12:1: error: adapter: qlora is an adapter of 4-bit weights",
                                           "qlora.yaml:13:1: error: load_in_8bit: this kind of quantized weights is not "
                                           "available"),
                            "bloom.yaml": ("bloom.yaml:1:1: error: base_model: the name 'bigscience/bloom-560m' is that of "
                                           "a model of type 'bloom', which is not available",)}.items():
            code, errors = scratch.call("import", name, "--to", "refused.yaml")
            report.check(f"{name} is refused", code == 2 and all(word in errors for word in words), f"exit {code}\n{errors}")
            report.check(f"{name}: nothing is written", not (scratch.path / "refused.yaml").exists())
        done("TRL", scratch.call("import", "trl.yaml", "--to", "trl_recipe.yaml"), "a config of trl, recognized by "
             "model_name_or_path, dataset_name\n", "data.train")
        done("torchtune", scratch.call("import", "tune.yaml", "--to", "t.yaml"))
        for name in ("a.yaml", "t.yaml", "trl_recipe.yaml"):
            done(f"{name} is a recipe", scratch.call("validate", name))
        done("Accelerate's", scratch.call("import", "accelerate.yaml", "--to", "where.yaml"), "gpu_ids: 'gpu_ids' has no effect on the CPU")
        done("it is a config", scratch.call("validate", "job.yaml", "--config", "where.yaml"))
        code, errors = scratch.call("import", "axolotl.yaml", "--to", "a.yaml")
        report.check("nothing is written over", code == 2 and "'a.yaml' already exists" in errors, errors)
        code, errors = scratch.call("import", "job.yaml")
        report.check("a recipe is no foreign config", code == 2 and "is not a config of a known trainer" in errors, errors)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
