"""Compares adapters that accel-run reads, trains, exports and merges with PEFT's own.

    python tests/interop/check_lora.py ACCEL_RUN
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import peft
import torch
import transformers

import check_hf_models as models
from export_model import export_model

# The model, the layers of it that get an adapter, and what PEFT trains besides.
CASES = {
    "gpt2": (["c_attn", "c_fc"], None, {}),
    "llama": (["q_proj", "v_proj", "down_proj"], None, {"use_rslora": True}),
    "bert": (["query", "value"], ["classifier", "pooler"], {}),
    "roberta": (["query", "value"], ["classifier"], {}),
    "distilbert": (["q_lin", "v_lin"], ["pre_classifier", "classifier"], {}),
}

# Of these an exported program resumes from PEFT's adapter, too.
EXPORTED = ("gpt2", "llama", "bert")

RECIPE = models.RECIPE.replace("weights: theirs}", "weights: theirs, lora: {adapter: adapter}}")


def write_adapter(folder, name):
    """PEFT's model, whose adapter is in the folder."""
    class_name, config_class, options = models.CASES[name]
    model_class = getattr(transformers, class_name)
    targets, others, more = CASES[name]
    torch.manual_seed(7)
    model_class(getattr(transformers, config_class)(**options)).save_pretrained(folder / "theirs")
    # Both matrices drawn: with PEFT's own start the first of them would get no gradient at first.
    config = peft.LoraConfig(r=4, lora_alpha=6, target_modules=targets, modules_to_save=others,
                             init_lora_weights=False, **more)
    theirs = peft.get_peft_model(model_class.from_pretrained(folder / "theirs"), config)
    theirs.save_pretrained(folder / "adapter")
    return theirs


def same_run(binary, folder, name, theirs):
    """Trains both; what is exported then computes what PEFT's model does."""
    class_name = models.CASES[name][0]
    batches = models.write_data(folder, class_name)
    models.accel_run(binary, folder, "job.yaml")
    worst = models.same_losses(folder, theirs, batches)
    models.accel_run(binary, folder, "export", "runs/job", "--to", "ours")
    base = getattr(transformers, class_name).from_pretrained(folder / "theirs")
    ours = peft.PeftModel.from_pretrained(base, folder / "ours")
    models.same_logits(ours.eval(), theirs.eval(), batches[0][0])
    return worst, batches[0][0]


def check(binary, folder, name):
    theirs = write_adapter(folder, name)
    (folder / "job.yaml").write_text(RECIPE)
    worst, probe = same_run(binary, folder, name, theirs)
    models.accel_run(binary, folder, "export", "runs/job", "--to", "merged", "--merge")
    models.same_logits(models.load(models.CASES[name][0], folder / "merged"), theirs, probe)
    print(f"{name}: {models.STEPS} losses within {worst:.1e}, exported, merged and loaded", flush=True)


def check_exported(binary, folder, name):
    theirs = write_adapter(folder, name)
    module = models.load(models.CASES[name][0], folder / "theirs")
    module.config.use_cache = False
    export_model(module, {"input_ids": torch.ones(models.BATCH, models.LENGTH, dtype=torch.long)}, folder / "model", ())
    (folder / "job.yaml").write_text(RECIPE.replace("type: auto, weights: theirs", "type: exported, file: model"))
    worst, _ = same_run(binary, folder, name, theirs)
    print(f"{name}, exported program: {models.STEPS} losses within {worst:.1e}, exported and loaded", flush=True)


def main():
    binary = Path(sys.argv[1]).resolve()
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder:
            check(binary, Path(folder), name)
    for name in EXPORTED:
        with tempfile.TemporaryDirectory() as folder:
            check_exported(binary, Path(folder), name)


if __name__ == "__main__":
    main()
