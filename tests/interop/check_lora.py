"""Compares adapters that accel-run reads, trains, exports and merges with PEFT's own.

    python tests/interop/check_lora.py ACCEL_RUN
"""

import json
import subprocess
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
    "llama patterns": (["q_proj", "v_proj", "down_proj"], None, {
        "rank_pattern": {"down_proj": 2, r"layers\.0\.self_attn\.q_proj": 7}, "alpha_pattern": {r"(?<=self_attn\.)v_proj": 3.5}}),
    "llama dora": (["q_proj", "down_proj"], None, {"use_dora": True, "rank_pattern": {"q_proj": 6}}),
    "gpt2 dora": (["c_attn", "c_fc"], None, {"use_dora": True, "use_rslora": True}),
    "gpt2 all biases": (["c_attn"], None, {"bias": "all"}),
    "bert biases": (["query", "value"], ["classifier"], {"bias": "lora_only"}),
    "roberta lora bias": (["query", "dense"], None, {"lora_bias": True}),
    "bert pooler": (["dense"], ["classifier"], {}),
    "llama pissa": (["q_proj", "up_proj"], None, {"init_lora_weights": "pissa"}),
    "gpt2 pissa": (["c_attn", "c_proj"], None, {"init_lora_weights": "pissa", "use_rslora": True}),
    "bert olora": (["query", "intermediate.dense"], ["classifier"], {"init_lora_weights": "olora"}),
    "llama vocabulary": (["q_proj", "embed_tokens", "lm_head"], None, {"rank_pattern": {"lm_head": 3}}),
    "qwen2 tied": (["v_proj", "embed_tokens", "lm_head"], None, {"use_rslora": True}),
    "qwen2 tied saved": (["v_proj"], ["embed_tokens"], {"ensure_weight_tying": True}),
    "mixtral attention": (["q_proj", "o_proj"], None, {"alpha_pattern": {"o_proj": 3}}),
    "qwen2 tied head": (["lm_head"], None, {}),
    "gemma2 scaled": (["embed_tokens", "o_proj"], None, {}),
    "gpt2 vocabulary": (["c_attn", "wte", "wpe", "lm_head"], None, {}),
    "gpt2_classes head": (["c_attn", "wte"], None, {"task_type": "SEQ_CLS"}),
    "bert embeddings": (["query", "word_embeddings", "token_type_embeddings"], ["classifier"], {}),
    "roberta positions": (["position_embeddings", "value"], ["classifier"], {}),
    "electra": (["query", "embeddings_project"], ["classifier"], {}),
    "deberta": (["query_proj", "value_proj"], ["classifier", "pooler"], {}),
    # Nothing of the head is trained but what 'modules_to_save' or 'bias' names.
    "bert head": (["query"], None, {}),
    "bert_tokens head": (["query"], None, {}),
    "modernbert head": (["Wqkv"], None, {}),
    "bert_tokens biases": (["query"], None, {"bias": "all"}),
    "electra_tokens biases": (["query"], None, {"bias": "all"}),
    "roberta_tokens biases": (["value"], None, {"bias": "all"}),
    "distilbert_tokens biases": (["q_lin"], ["vocab_transform"], {"bias": "all"}),
    "electra_tokens saved": (["query"], ["generator_predictions"], {}),
    "gpt_neox": (["query_key_value", "dense", "dense_4h_to_h"], None, {}),
    "gpt_neox_serial embeddings": (["query_key_value", "embed_in"], None, {}),
    "opt": (["q_proj", "v_proj", "fc2"], None, {"use_dora": True}),
    "opt_classes head": (["q_proj", "project_in"], None, {"task_type": "SEQ_CLS"}),
    "qwen3 gaussian": (["o_proj"], None, {"init_lora_weights": "gaussian"}),
}

# Of these an exported program resumes from PEFT's adapter, too.
EXPORTED = ("gpt2", "llama", "bert")

RECIPE = models.RECIPE.replace("weights: theirs}", "weights: theirs, lora: {adapter: adapter}}")


def write_adapter(folder, name, case=None):
    """PEFT's model, whose adapter is in the folder."""
    class_name, config_class, options = models.CASES[name.split()[0]]
    model_class = getattr(transformers, class_name)
    targets, others, more = case or CASES[name]
    more = {"init_lora_weights": False, **more}
    torch.manual_seed(7)
    model_class(getattr(transformers, config_class)(**options)).save_pretrained(folder / "theirs")
    # Both matrices drawn: with PEFT's own start the first of them would get no gradient at first.
    config = peft.LoraConfig(r=4, lora_alpha=6, target_modules=targets, modules_to_save=others,
                             **more)
    theirs = peft.get_peft_model(model_class.from_pretrained(folder / "theirs"), config)
    theirs.save_pretrained(folder / "adapter")
    return theirs


def same_run(binary, folder, name, theirs):
    """Trains both; what is exported then computes what PEFT's model does."""
    class_name = models.CASES[name.split()[0]][0]
    batches = models.write_data(folder, class_name)
    models.accel_run(binary, folder, "job.yaml")
    trained = models.Trained(theirs, batches)
    worst = trained.same_losses(folder / "runs/job")
    models.accel_run(binary, folder, "export", "runs/job", "--to", "ours")
    base = getattr(transformers, class_name).from_pretrained(folder / "theirs")
    ours = peft.PeftModel.from_pretrained(base, folder / "ours")
    trained.same_logits(ours, batches[0][0])
    return worst, trained, batches[0][0]


def check(binary, folder, name):
    theirs = write_adapter(folder, name)
    (folder / "job.yaml").write_text(RECIPE)
    worst, trained, probe = same_run(binary, folder, name, theirs)
    models.accel_run(binary, folder, "export", "runs/job", "--to", "merged", "--merge")
    trained.same_logits(models.load(models.CASES[name.split()[0]][0], folder / "merged"), probe)
    print(f"{name}: {models.STEPS} losses within {worst:.1e}, exported, merged and loaded", flush=True)


def check_exported(binary, folder, name):
    theirs = write_adapter(folder, name)
    module = models.load(models.CASES[name.split()[0]][0], folder / "theirs")
    module.config.use_cache = False
    export_model(module, {"input_ids": torch.ones(models.BATCH, models.LENGTH, dtype=torch.long)}, folder / "model", ())
    (folder / "job.yaml").write_text(RECIPE.replace("type: auto, weights: theirs", "type: exported, file: model"))
    worst, _, _ = same_run(binary, folder, name, theirs)
    print(f"{name}, exported program: {models.STEPS} losses within {worst:.1e}, exported and loaded", flush=True)


def refusal(binary, folder, *words):
    done = subprocess.run([binary, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode, words
    return done.stderr


def check_fresh(binary, folder, init):
    """A new adapter of a decomposition has PEFT's losses from the first step."""
    class_name, config_class, options = models.CASES["llama"]
    torch.manual_seed(7)
    getattr(transformers, class_name)(getattr(transformers, config_class)(**options)).save_pretrained(folder / "theirs")
    config = peft.LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "down_proj"], init_lora_weights=init)
    theirs = peft.get_peft_model(getattr(transformers, class_name).from_pretrained(folder / "theirs"), config)
    lora = f"{{rank: 4, alpha: 6, target_modules: ['*q_proj', '*down_proj'], init: {init}}}"
    (folder / "job.yaml").write_text(models.RECIPE.replace("weights: theirs}", f"weights: theirs, lora: {lora}}}"))
    worst, _, _ = same_run(binary, folder, "llama", theirs)
    print(f"llama, new adapter, {init}: {models.STEPS} losses within {worst:.1e}, exported and loaded", flush=True)


# Adapters of experts by options of `lora`, and what PEFT does with them as the export says; "": it computes what the
# merged model does.
ALL = "rank: 3, alpha: 5, target_modules: ['*.q_proj', '*.experts.*']"
STACKED = "loads adapters of experts only if all of a layer have them, in both of 'gate_proj' and 'up_proj' or in none"
VARIANTS = "loads no adapters of experts with 'dora', 'lora_bias' or the init pissa or olora"
OWN = "gives 'model.layers.0.mlp.experts.0.down_proj' the rank and alpha of the other layers"
EXPERTS = (
    (ALL, ""),
    ("rank: 3, alpha: 5, target_modules: ['*.q_proj', '*.gate', '*.layers.0.*.experts.*']", ""),
    ("rank: 3, alpha: 5, rslora: true, target_modules: ['*.experts.*down_proj']", ""),
    (ALL + ", rslora: true", "scales the joined 'gate_proj' and 'up_proj' of experts otherwise with 'rslora'"),
    (ALL + ", alpha_pattern: {'*.experts.*': 7}", OWN),
    (ALL + ", rank_pattern: {'*.experts.*': 2}", OWN),
    (ALL + ", dropout: 0.1", "loads adapters of experts only with a 'lora_dropout' of 0"),
    (ALL + ", dora: true", VARIANTS),
    (ALL + ", init: olora", VARIANTS),
    ("rank: 3, target_modules: ['*.q_proj', '*.experts.*gate_proj']", STACKED),
    ("rank: 3, target_modules: ['*.q_proj', '*.experts.1.*']", STACKED),
)
DENSE = ("rank: 3, alpha: 5, target_modules: ['*.q_proj', '*.mlp.*']",
         "takes 'model.layers.1.mlp.down_proj' for a layer of experts, and ignores its adapter")


def distance_of_experts(folder, model_class, class_name, probe):
    """Of PEFT's model of the exported adapter from the merged one; none if PEFT refuses the adapter."""
    try:
        ours = peft.PeftModel.from_pretrained(model_class.from_pretrained(folder / "theirs"), folder / "ours").eval()
    except (ValueError, RuntimeError, AttributeError):
        return None
    with torch.no_grad():
        return (ours(probe).logits - models.load(class_name, folder / "merged")(probe).logits).abs().max().item()


def check_experts(binary, folder, family, lora, problem):
    """PEFT loads adapters of experts that accel-run trained, or the export warns of what it does instead."""
    class_name, config_class, options = models.CASES[family]
    model_class = getattr(transformers, class_name)
    torch.manual_seed(7)
    model_class(getattr(transformers, config_class)(**options)).save_pretrained(folder / "theirs")
    batches = models.write_data(folder, class_name)
    (folder / "job.yaml").write_text(models.RECIPE.replace("weights: theirs}", f"weights: theirs, lora: {{{lora}}}}}"))
    models.accel_run(binary, folder, "job.yaml")
    models.accel_run(binary, folder, "export", "runs/job", "--to", "merged", "--merge")
    done = subprocess.run([binary, "export", "runs/job", "--to", "ours"], cwd=folder, capture_output=True, text=True,
                          check=True)
    distance = distance_of_experts(folder, model_class, class_name, batches[0][0])
    if problem:
        said = f"PEFT with transformers 5 {problem}: '--merge' exports the whole model"
        assert said in done.stderr, (said, done.stderr)
        assert distance is None or distance > 1e-5, f"PEFT loads experts of {family} with {lora}: drop the warning"
    else:
        assert "PEFT" not in done.stderr, done.stderr
        assert distance is not None and distance < 1e-5, (family, lora, distance)


def check_families_of_experts(binary):
    cases = [(family, *case) for family in ("mixtral", "qwen3_moe") for case in EXPERTS]
    cases += [("qwen3_moe", *DENSE), ("qwen2_moe", ALL, "does not load adapters of this model's experts")]
    for family, lora, problem in cases:
        with tempfile.TemporaryDirectory() as folder:
            check_experts(binary, Path(folder), family, lora, problem)
    print(f"{len(cases)} adapters of experts: PEFT loads them, or the export says what it does", flush=True)


def check_tied_apart(binary, folder, family, case, table):
    """An embedding that PEFT trains without the head that is tied to it is refused. PEFT loads what a run trained of
    both."""
    write_adapter(folder, family, case)
    (folder / "job.yaml").write_text(RECIPE)
    class_name = models.CASES[family][0]
    batches = models.write_data(folder, class_name)
    said = refusal(binary, folder, "validate", "job.yaml")
    assert f"trains '{table}.weight' alone, and 'lm_head.weight', which is tied to it" in said, said
    lora = f"{{rank: 2, target_modules: '*.{case[0][0]}', modules_to_save: '{table}.*'}}"
    (folder / "job.yaml").write_text(models.RECIPE.replace("weights: theirs}", f"weights: theirs, lora: {lora}}}"))
    models.accel_run(binary, folder, "job.yaml")
    models.accel_run(binary, folder, "export", "runs/job", "--to", "merged", "--merge")
    models.accel_run(binary, folder, "export", "runs/job", "--to", "ours")
    base = getattr(transformers, class_name).from_pretrained(folder / "theirs")
    ours = peft.PeftModel.from_pretrained(base, folder / "ours")
    models.same_logits(ours.eval(), models.load(class_name, folder / "merged"), batches[0][0])
    (folder / "job.yaml").write_text(RECIPE.replace("adapter: adapter", "adapter: ours"))
    models.accel_run(binary, folder, "validate", "job.yaml")
    print(f"{family}: a tied embedding is trained with its head, or refused", flush=True)


# Layers that are tied to the embedding, of which PEFT trains copies.
COPIES = {"electra_tokens": (["query"], ["generator_lm_head"], "generator_lm_head"),
          "bert_tokens": (["query"], ["decoder"], "cls.predictions.decoder"),
          "distilbert_tokens": (["q_lin"], ["vocab_projector"], "vocab_projector"),
          "modernbert": (["Wqkv"], ["decoder"], "decoder")}


def check_copies(binary):
    for family, (targets, saved, layer) in COPIES.items():
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            write_adapter(folder, family, (targets, saved, {}))
            (folder / "job.yaml").write_text(RECIPE)
            models.write_data(folder, models.CASES[family][0])
            said = refusal(binary, folder, "job.yaml")
            assert f"the adapter trains a copy of '{layer}', which has no parameters of its own here" in said, said
    print(f"{len(COPIES)} copies of tied heads are refused", flush=True)


def check_refusals(binary, folder):
    """What is not done is refused by name."""
    write_adapter(folder, "llama patterns")
    (folder / "job.yaml").write_text(RECIPE)
    models.write_data(folder, models.CASES["llama"][0])
    path = folder / "adapter/adapter_config.json"
    config = json.loads(path.read_text())
    for pattern, message in (({"q_proj": "x"}, "has no number for 'q_proj' in 'alpha_pattern'"),
                             ({"q_proj": 1, ".*q_proj": 2}, "has two numbers for 'model.layers.0.self_attn.q_proj'"),):
        path.write_text(json.dumps({**config, "alpha_pattern": pattern}))
        assert message in refusal(binary, folder, "validate", "job.yaml"), message
    (folder / "plain.yaml").write_text(models.RECIPE)
    said = refusal(binary, folder, "plain.yaml", "model.lora={rank: 2, rank_pattern: {'*q_proj': 3, '*layers.0*': 4}}")
    assert ("two patterns of 'lora.rank_pattern' give the layer 'model.layers.0.self_attn.q_proj' different values"
            in said), said
    lora = "model.lora={rank: 2, target_modules: '*q_proj', lora_bias: true}"
    models.accel_run(binary, folder, "plain.yaml", "name=biased", lora, "train.until=1 steps")
    said = refusal(binary, folder, "export", "runs/biased", "--to", "merged", "--merge")
    assert "'--merge' cannot merge the bias of the adapter of 'model.layers.0.self_attn.q_proj', which has none" in said
    print("what is not done is refused", flush=True)


def main():
    binary = Path(sys.argv[1]).resolve()
    for name in sys.argv[2:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            check(binary, Path(folder), name)
    for init in [] if sys.argv[2:] else ("pissa", "olora"):
        with tempfile.TemporaryDirectory() as folder:
            check_fresh(binary, Path(folder), init)
    with tempfile.TemporaryDirectory() as folder:
        check_refusals(binary, Path(folder))
    check_copies(binary)
    for family, layer, table in (("qwen2", "v_proj", "model.embed_tokens"), ("gpt2", "c_attn", "transformer.wte")):
        with tempfile.TemporaryDirectory() as folder:
            check_tied_apart(binary, Path(folder), family, ([layer], [table.rsplit(".", 1)[-1]], {}), table)
    check_families_of_experts(binary)
    for name in [] if sys.argv[2:] else EXPORTED:
        with tempfile.TemporaryDirectory() as folder:
            check_exported(binary, Path(folder), name)


if __name__ == "__main__":
    main()
