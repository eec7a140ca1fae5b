"""Compares adapters that accel-run reads, trains, exports and merges with PEFT's own.

    python tests/interop/check_lora.py ACCEL_RUN
"""

import sys
import tempfile
from pathlib import Path

import peft
import torch
import transformers

import check_hf_models as models

# The model, the layers of it that get an adapter, and what PEFT trains besides.
CASES = {
    "gpt2": (["c_attn", "c_fc"], None, {}),
    "llama": (["q_proj", "v_proj", "down_proj"], None, {"use_rslora": True}),
    "bert": (["query", "value"], ["classifier", "pooler"], {}),
    "roberta": (["query", "value"], ["classifier"], {}),
    "distilbert": (["q_lin", "v_lin"], ["pre_classifier", "classifier"], {}),
}

RECIPE = models.RECIPE.replace("weights: theirs}", "weights: theirs, lora: {adapter: adapter}}")


def check(binary, folder, name):
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
    batches = models.write_data(folder, class_name)
    (folder / "job.yaml").write_text(RECIPE)
    models.accel_run(binary, folder, "job.yaml")
    worst = models.same_losses(folder, theirs, batches)

    probe = batches[0][0]
    models.accel_run(binary, folder, "export", "runs/job", "--to", "ours")
    ours = peft.PeftModel.from_pretrained(model_class.from_pretrained(folder / "theirs"), folder / "ours")
    models.same_logits(ours.eval(), theirs.eval(), probe)
    models.accel_run(binary, folder, "export", "runs/job", "--to", "merged", "--merge")
    models.same_logits(models.load(class_name, folder / "merged"), theirs, probe)
    print(f"{name}: {models.STEPS} losses within {worst:.1e}, exported, merged and loaded")


def main():
    binary = Path(sys.argv[1]).resolve()
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder:
            check(binary, Path(folder), name)


if __name__ == "__main__":
    main()
