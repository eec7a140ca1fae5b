"""Compares models that accel-run reads, trains and exports with transformers' own.

    python tests/interop/check_hf_models.py ACCEL_RUN [CASE...]
"""

import copy
import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
import transformers
from torch.nn import functional as F

EXACT = 3e-7  # relative distance of losses from those in float64
STEPS = 20
BATCH, LENGTH, VOCAB, CLASSES = 4, 16, 61, 3
LR = 1e-3
RESNET_LR = 1e-4  # with larger steps rounding decides on which side of a ReLU's kink some of few numbers fall

SMALL = {"vocab_size": VOCAB, "n_positions": 32, "n_embd": 48, "n_layer": 3, "n_head": 4, "resid_pdrop": 0.0,
         "attn_pdrop": 0.0, "embd_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 1}

LLAMA = {"vocab_size": VOCAB, "max_position_embeddings": 64, "hidden_size": 48, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 80, "bos_token_id": 0,
         "eos_token_id": 1}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}

YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}
LONG_ROPE = {"rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75,
             "short_factor": [1.0, 1.1, 1.2, 1.5, 2.0, 2.5], "long_factor": [1.5, 2.0, 2.5, 3.0, 4.0, 6.0]}
GEMMA = {**LLAMA, "head_dim": 20, "pad_token_id": 0}

NEOX = {"vocab_size": VOCAB, "max_position_embeddings": 32, "hidden_size": 48, "num_hidden_layers": 3,
        "num_attention_heads": 4, "intermediate_size": 80, "bos_token_id": 0, "eos_token_id": 1}
HALF = {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}
OPT = {"vocab_size": VOCAB, "max_position_embeddings": 32, "hidden_size": 48, "num_hidden_layers": 3,
       "num_attention_heads": 4, "ffn_dim": 80, "dropout": 0.0, "bos_token_id": 2, "eos_token_id": 2}

BERT = {"vocab_size": VOCAB, "max_position_embeddings": 32, "hidden_size": 48, "num_hidden_layers": 3,
        "num_attention_heads": 4, "intermediate_size": 80, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0}

ROBERTA = {**BERT, "type_vocab_size": 1, "max_position_embeddings": 34}

DISTILBERT = {"vocab_size": VOCAB, "max_position_embeddings": 32, "dim": 48, "n_layers": 3, "n_heads": 4,
              "hidden_dim": 80, "dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0}

MODERNBERT = {"vocab_size": VOCAB, "max_position_embeddings": 32, "hidden_size": 48, "num_hidden_layers": 4,
              "num_attention_heads": 4, "intermediate_size": 56, "local_attention": 6, "pad_token_id": None,
              "bos_token_id": None, "eos_token_id": None, "cls_token_id": None, "sep_token_id": None}

ELECTRA = {**BERT, "embedding_size": 20}
DEBERTA = {**BERT, "relative_attention": True, "type_vocab_size": 0, "pos_att_type": "p2c|c2p"}
DEBERTA_V3 = {**DEBERTA, "position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm",
              "position_biased_input": False}

VIT = {"image_size": 12, "patch_size": 4, "num_channels": 3, "hidden_size": 48, "num_hidden_layers": 3,
       "num_attention_heads": 4, "intermediate_size": 80}

RESNET = {"num_channels": 3, "embedding_size": 4, "depths": [2, 2, 2, 2]}

CASES = {
    "vit": ("ViTForImageClassification", "ViTConfig", {**VIT, "num_labels": CLASSES}),
    "bert": ("BertForSequenceClassification", "BertConfig", {**BERT, "num_labels": CLASSES}),
    "resnet": ("ResNetForImageClassification", "ResNetConfig", {
        **RESNET, "layer_type": "basic", "hidden_sizes": [4, 8, 16, 32], "num_labels": CLASSES}),
    "resnet_bottleneck": ("ResNetForImageClassification", "ResNetConfig", {
        **RESNET, "hidden_sizes": [16, 32, 64, 128], "hidden_act": "gelu", "downsample_in_bottleneck": True,
        "num_labels": CLASSES}),
    "bert_tokens": ("BertForMaskedLM", "BertConfig", BERT),
    "roberta": ("RobertaForSequenceClassification", "RobertaConfig", {**ROBERTA, "num_labels": CLASSES}),
    "roberta_tokens": ("RobertaForMaskedLM", "RobertaConfig", {**ROBERTA, "pad_token_id": 5}),
    "xlm_roberta": ("XLMRobertaForMaskedLM", "XLMRobertaConfig", ROBERTA),
    "camembert": ("CamembertForSequenceClassification", "CamembertConfig", {**ROBERTA, "num_labels": CLASSES}),
    "distilbert": ("DistilBertForSequenceClassification", "DistilBertConfig", {**DISTILBERT, "num_labels": CLASSES}),
    "distilbert_tokens": ("DistilBertForMaskedLM", "DistilBertConfig", DISTILBERT),
    "bert_answers": ("BertForQuestionAnswering", "BertConfig", BERT),
    "roberta_answers": ("RobertaForQuestionAnswering", "RobertaConfig", ROBERTA),
    "distilbert_answers": ("DistilBertForQuestionAnswering", "DistilBertConfig", {**DISTILBERT, "qa_dropout": 0.0}),
    "modernbert": ("ModernBertForMaskedLM", "ModernBertConfig", {**MODERNBERT, "pad_token_id": 0}),
    "modernbert_classes": ("ModernBertForSequenceClassification", "ModernBertConfig", {
        **MODERNBERT, "num_labels": CLASSES, "classifier_pooling": "mean", "norm_bias": True, "mlp_bias": True,
        "classifier_bias": True, "classifier_activation": "relu", "hidden_activation": "gelu_pytorch_tanh"}),
    "modernbert_answers": ("ModernBertForQuestionAnswering", "ModernBertConfig", {
        **MODERNBERT, "attention_bias": True, "decoder_bias": False, "rope_parameters": {
            "full_attention": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0, "original_max_position_embeddings": 8},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**LLAMA, "rope_parameters": LLAMA3}),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**LLAMA, "sliding_window": None}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {**LLAMA, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**LLAMA, "head_dim": 16}),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {
        **LLAMA, "num_local_experts": 5, "output_router_logits": True, "router_aux_loss_coef": 0.05}),
    "qwen2_moe": ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", {
        **LLAMA, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "mlp_only_layers": [1],
        "shared_expert_intermediate_size": 40, "output_router_logits": True, "router_aux_loss_coef": 0.05,
        "use_sliding_window": True, "sliding_window": 4}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", {
        **LLAMA, "head_dim": 16, "num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 32,
        "mlp_only_layers": [1]}),
    "llama_answers": ("LlamaForQuestionAnswering", "LlamaConfig", {
        **LLAMA, "head_dim": 20, "mlp_bias": True, "rope_parameters": LLAMA3}),
    "mistral_answers": ("MistralForQuestionAnswering", "MistralConfig", {**LLAMA, "sliding_window": 5}),
    "qwen2_answers": ("Qwen2ForQuestionAnswering", "Qwen2Config", {
        **LLAMA, "tie_word_embeddings": True, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    "qwen3_answers": ("Qwen3ForQuestionAnswering", "Qwen3Config", {**LLAMA, "head_dim": 20, "attention_bias": True}),
    "mixtral_answers": ("MixtralForQuestionAnswering", "MixtralConfig", {**LLAMA, "num_local_experts": 3}),
    "llama_yarn": ("LlamaForCausalLM", "LlamaConfig", {**LLAMA, "head_dim": 20, "rope_parameters": YARN}),
    "llama_yarn_mscale": ("LlamaForCausalLM", "LlamaConfig", {
        **LLAMA, "rope_parameters": {**YARN, "mscale": 0.7, "mscale_all_dim": 1.3, "beta_fast": 8, "beta_slow": 2,
                                     "truncate": False}}),
    "llama_dynamic": ("LlamaForCausalLM", "LlamaConfig", {
        **LLAMA, "max_position_embeddings": 10, "head_dim": 12,
        "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}}),
    "mistral_window": ("MistralForCausalLM", "MistralConfig", {**LLAMA, "sliding_window": 5}),
    "mixtral_window": ("MixtralForCausalLM", "MixtralConfig", {**LLAMA, "sliding_window": 6, "num_local_experts": 3}),
    "qwen2_windows": ("Qwen2ForCausalLM", "Qwen2Config", {
        **LLAMA, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    "qwen3_windows": ("Qwen3ForCausalLM", "Qwen3Config", {
        **LLAMA, "head_dim": 20, "use_sliding_window": True, "sliding_window": 3, "tie_word_embeddings": True,
        "attention_bias": True, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", {**LLAMA, "sliding_window": 7, "pad_token_id": 0}),
    "phi3_long": ("Phi3ForCausalLM", "Phi3Config", {
        **LLAMA, "hidden_size": 64, "original_max_position_embeddings": 12, "rope_parameters": LONG_ROPE,
        "tie_word_embeddings": True, "pad_token_id": 0}),
    "phi3_short": ("Phi3ForCausalLM", "Phi3Config", {
        **LLAMA, "hidden_size": 64, "original_max_position_embeddings": 32, "rope_parameters": LONG_ROPE,
        "pad_token_id": 0}),
    "smollm3": ("SmolLM3ForCausalLM", "SmolLM3Config", {
        **LLAMA, "no_rope_layers": [1, 0, 1], "mlp_bias": True, "pad_token_id": 0}),
    "smollm3_windows": ("SmolLM3ForCausalLM", "SmolLM3Config", {
        **LLAMA, "num_hidden_layers": 5, "attention_bias": True, "use_sliding_window": True, "sliding_window": 4,
        "tie_word_embeddings": False, "pad_token_id": 0}),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", {**GEMMA, "num_key_value_heads": 1}),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {
        **GEMMA, "sliding_window": 5, "query_pre_attn_scalar": 30, "attn_logit_softcapping": 0.5,
        "final_logit_softcapping": 0.7}),
    "gemma2_plain": ("Gemma2ForCausalLM", "Gemma2Config", {
        **GEMMA, "attn_logit_softcapping": None, "final_logit_softcapping": None, "tie_word_embeddings": False,
        "attention_bias": True}),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {
        **GEMMA, "num_hidden_layers": 4, "sliding_window": 5, "sliding_window_pattern": 3, "query_pre_attn_scalar": 24,
        "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e5},
                            "sliding_attention": {"rope_type": "default", "rope_theta": 1e3}}}),
    "gemma3_capped": ("Gemma3ForCausalLM", "Gemma3TextConfig", {
        **GEMMA, "sliding_window": 4, "final_logit_softcapping": 0.6, "num_key_value_heads": 4}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {**SMALL, "activation_function": "gelu_pytorch_tanh"}),
    "gpt2_classes": ("GPT2ForSequenceClassification", "GPT2Config", {
        **SMALL, "num_labels": CLASSES, "pad_token_id": 5, "n_inner": 72}),
    "gpt2_answers": ("GPT2ForQuestionAnswering", "GPT2Config", {**SMALL, "n_head": 3, "n_inner": 80}),
    "electra": ("ElectraForSequenceClassification", "ElectraConfig", {**ELECTRA, "num_labels": CLASSES}),
    "electra_tokens": ("ElectraForMaskedLM", "ElectraConfig", {**ELECTRA, "hidden_act": "relu", "pad_token_id": 3}),
    "electra_wide": ("ElectraForMaskedLM", "ElectraConfig", {**ELECTRA, "embedding_size": 48, "type_vocab_size": 3}),
    "electra_answers": ("ElectraForQuestionAnswering", "ElectraConfig", {**ELECTRA, "embedding_size": 64}),
    "deberta": ("DebertaV2ForSequenceClassification", "DebertaV2Config", {**DEBERTA_V3, "num_labels": CLASSES}),
    "deberta_tokens": ("DebertaV2ForMaskedLM", "DebertaV2Config", {
        **DEBERTA_V3, "position_buckets": 6, "pad_token_id": 3, "layer_norm_eps": 1e-7}),
    "deberta_new_head": ("DebertaV2ForMaskedLM", "DebertaV2Config", {
        **DEBERTA_V3, "legacy": False, "pos_att_type": ["c2p"], "max_relative_positions": 20}),
    "deberta_v2": ("DebertaV2ForMaskedLM", "DebertaV2Config", {
        **DEBERTA, "type_vocab_size": 2, "max_relative_positions": 9, "hidden_act": "gelu_new"}),
    "deberta_answers": ("DebertaV2ForQuestionAnswering", "DebertaV2Config", {
        **DEBERTA_V3, "share_att_key": False, "pos_att_type": ["p2c"], "norm_rel_ebd": "none"}),
    "deberta_plain": ("DebertaV2ForMaskedLM", "DebertaV2Config", {**DEBERTA_V3, "pos_att_type": []}),
    "deberta_own_plain": ("DebertaV2ForSequenceClassification", "DebertaV2Config", {
        **DEBERTA, "pos_att_type": [], "share_att_key": False, "num_labels": CLASSES}),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", {**NEOX, "rope_parameters": HALF}),
    "gpt_neox_serial": ("GPTNeoXForCausalLM", "GPTNeoXConfig", {
        **NEOX, "num_attention_heads": 2, "use_parallel_residual": False, "tie_word_embeddings": True,
        "attention_bias": False, "hidden_act": "gelu_new", "layer_norm_eps": 1e-3,
        "rope_parameters": {**YARN, "partial_rotary_factor": 0.25}}),
    "gpt_neox_classes": ("GPTNeoXForSequenceClassification", "GPTNeoXConfig", {
        **NEOX, "num_labels": CLASSES, "pad_token_id": 5, "rope_parameters": {
            "rope_type": "linear", "factor": 3.0, "rope_theta": 1e4, "partial_rotary_factor": 1.0}}),
    "gpt_neox_answers": ("GPTNeoXForQuestionAnswering", "GPTNeoXConfig", {
        **NEOX, "num_attention_heads": 3, "hidden_act": "relu", "tie_word_embeddings": True}),
    "opt": ("OPTForCausalLM", "OPTConfig", OPT),
    "opt_350m": ("OPTForCausalLM", "OPTConfig", {
        **OPT, "do_layer_norm_before": False, "word_embed_proj_dim": 20, "pad_token_id": 7}),
    "opt_galactica": ("OPTForCausalLM", "OPTConfig", {
        **OPT, "enable_bias": False, "layer_norm_elementwise_affine": False, "activation_function": "gelu",
        "word_embed_proj_dim": 64, "tie_word_embeddings": False, "pad_token_id": None}),
    "opt_classes": ("OPTForSequenceClassification", "OPTConfig", {
        **OPT, "num_labels": CLASSES, "pad_token_id": 5, "word_embed_proj_dim": 16, "tie_word_embeddings": False}),
    "opt_answers": ("OPTForQuestionAnswering", "OPTConfig", {**OPT, "_remove_final_layer_norm": True}),
    "gpt2_wide": ("GPT2LMHeadModel", "GPT2Config", {**SMALL, "n_inner": 64, "activation_function": "gelu",
                                                    "tie_word_embeddings": False}),
}


# Folders in shards of bfloat16.
BF16 = {"mistral_window", "gemma3", "phi3_long", "gpt_neox_serial", "opt_350m", "electra_tokens",
        "deberta"}


def accel_run(binary, folder, *words):
    done = subprocess.run([binary, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done


RECIPE = f"""
name: job
model: {{type: auto, weights: theirs}}
data:
  train: {{type: npy, inputs: inputs.npy, targets: targets.npy}}
  loader: {{shuffle: false}}
optimizer: {{type: adamw, lr: {LR}, weight_decay: 0.01}}
train: {{until: {STEPS} steps, batch: {BATCH}, max_grad_norm: none}}
accelerator: {{num_cpu_threads_per_process: 1, kernels: reference}}
"""


def write_data(folder, class_name):
    """The batches of all steps, in order; returns them."""
    random = np.random.default_rng(3)
    if "Image" in class_name:
        side = 64 if "ResNet" in class_name else VIT["image_size"]  # a norm over few numbers doubts each of them
        inputs = random.standard_normal((STEPS * BATCH, 3, side, side), dtype=np.float32)
    else:
        inputs = random.integers(0, VOCAB, (STEPS * BATCH, LENGTH))  # with padding tokens among them, whose embedding has no gradient
    if "QuestionAnswering" in class_name:
        targets = np.sort(random.integers(0, LENGTH, (STEPS * BATCH, 1, 2)), axis=2)
    elif "Classification" in class_name:
        targets = random.integers(0, CLASSES, STEPS * BATCH)
    else:
        targets = random.integers(0, VOCAB, inputs.shape)
    np.save(folder / "inputs.npy", inputs)
    np.save(folder / "targets.npy", targets)
    return list(zip(torch.tensor(inputs).split(BATCH), torch.tensor(targets).split(BATCH)))


def output_of(model, inputs):
    return model(**{"pixel_values" if inputs.is_floating_point() else "input_ids": inputs})


def logits_of(model, inputs):
    output = output_of(model, inputs)
    if "start_logits" not in output:
        return output.logits
    # The bias has no gradient but rounding, which AdamW makes steps of; probabilities do not depend on it.
    return torch.stack([output.start_logits, output.end_logits], -1).log_softmax(1)


def loss_of(model, inputs, targets):
    if "QuestionAnswering" in type(model).__name__:
        first, last = targets.flatten(0, 1).unbind(1)
        return model(input_ids=inputs, start_positions=first, end_positions=last).loss
    output = output_of(model, inputs)
    loss = F.cross_entropy(output.logits.flatten(0, -2), targets.flatten())
    balance = getattr(output, "aux_loss", None)
    return loss if balance is None else loss + model.config.router_aux_loss_coef * balance


def rate_of(class_name):
    return RESNET_LR if "ResNet" in class_name else LR


def train(model, batches):
    """transformers' model, on the same batches as accel-run's."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate_of(type(model).__name__), weight_decay=0.01)
    losses = []
    for inputs, targets in batches:
        loss = loss_of(model, inputs, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def load(class_name, folder):
    model, info = getattr(transformers, class_name).from_pretrained(folder, output_loading_info=True)
    wrong = {key: value for key, value in info.items() if value}
    assert not wrong, f"{folder}: {wrong}"
    return model.eval()


def logit_distance(first, second, inputs):
    with torch.no_grad():
        return (logits_of(first.eval(), inputs) - logits_of(second.eval(), inputs)).abs().max().item()


def same_logits(first, second, inputs):
    far = logit_distance(first, second, inputs)
    assert far < 1e-5, far


def check_small_images(binary, folder):
    """The stem `cifar`, which transformers loads with the code in the folder."""
    images = np.random.default_rng(3).standard_normal((BATCH, 3, 16, 16), dtype=np.float32)
    np.save(folder / "inputs.npy", images)
    np.save(folder / "targets.npy", np.arange(BATCH) % CLASSES)
    (folder / "job.yaml").write_text(RECIPE.replace(
        "{type: auto, weights: theirs}", "{type: resnet, stem: cifar, embedding_size: 4, depth: 26, early_stride: true}"))
    accel_run(binary, folder, "job.yaml", "train.until=3 steps")
    accel_run(binary, folder, "export", "runs/job", "--to", "ours")
    model, info = transformers.AutoModelForImageClassification.from_pretrained(
        folder / "ours", trust_remote_code=True, output_loading_info=True)
    wrong = {key: value for key, value in info.items() if value}
    assert not wrong, wrong
    assert model.resnet.embedder.embedder.convolution.weight.shape == (4, 3, 3, 3)
    batches = [(torch.tensor(images), torch.arange(BATCH) % CLASSES)] * 3
    # Loaded here again, both train to the same losses.
    (folder / "job.yaml").write_text(RECIPE.replace("theirs", "ours"))
    accel_run(binary, folder, "job.yaml", "name=again", "train.until=3 steps", f"optimizer.lr={RESNET_LR}")
    trained = Trained(model, batches)
    worst = trained.same_losses(folder / "runs/again")
    model.save_pretrained(folder / "theirs")
    accel_run(binary, folder, "validate", "job.yaml", "model.weights=theirs")
    print(f"resnet for small images: 3 losses within {worst:.1e}, exported and loaded")


def losses_of(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss_bits" in line]


def apart(losses, expected):
    return max(abs(a - b) / b for a, b in zip(losses, expected, strict=True))


def distance(losses, expected, exact, bound):
    """The largest relative distance from the expected losses. Where it is not below the bound, since rounding moves one side
    across a kink such as ReLU's, `exact` gives the losses in float64: ours must be as near to them as the expected ones."""
    worst = apart(losses, expected)
    if worst < bound:
        return worst
    wanted = exact()
    own, theirs = apart(losses, wanted), apart(expected, wanted)
    assert own < max(EXACT, 2 * theirs), (worst, own, theirs, losses, expected, wanted)
    return own


def in_float64(batches):
    return [(x.double() if x.is_floating_point() else x, y) for x, y in batches]


class Trained:
    """A model of transformers, trained on the batches; in float64 too, where rounding moved it."""

    def __init__(self, model, batches):
        self.twin, self.batches = copy.deepcopy(model), batches
        self.model, self.losses = model, train(model, batches)

    @functools.cached_property
    def exact(self):
        if hasattr(self.twin, "set_experts_implementation"):
            self.twin.set_experts_implementation("eager")  # PyTorch's grouped products lack float64
        losses = train(self.twin.double(), in_float64(self.batches))
        return self.twin.float(), losses

    def same_losses(self, run):
        """distance() of the losses of a run folder."""
        return distance(losses_of(run), self.losses, lambda: self.exact[1], 1e-5)

    def same_logits(self, ours, inputs):
        far = logit_distance(ours, self.model, inputs)
        if far >= 1e-5:
            model = self.exact[0]
            own, theirs = logit_distance(ours, model, inputs), logit_distance(self.model, model, inputs)
            assert own < max(1e-5, 2 * theirs), (far, own, theirs)


def without_idle(config):
    """The config without what has no effect beside its other keys."""
    rope = config.get("rope_parameters")
    if not isinstance(rope, dict):
        return config
    # mscale and mscale_all_dim come out as the attention_factor that they give.
    idle = {"mscale", "mscale_all_dim"} if {"mscale", "mscale_all_dim"} <= rope.keys() else set()
    idle |= {"partial_rotary_factor"} if rope.get("partial_rotary_factor") == 1.0 else set()
    rope = {key: value for key, value in rope.items() if key not in idle}
    idle = {"original_max_position_embeddings"} if rope.get("rope_type") == "default" else set()
    return {key: rope if key == "rope_parameters" else value for key, value in config.items() if key not in idle}


def kept(value, found):
    """Whether a value came out; a section may have more keys."""
    if isinstance(value, dict) and isinstance(found, dict):
        return all(kept(inner, found.get(key, "absent")) for key, inner in value.items())
    return value == found


def same_config(theirs, ours):
    """The values of a config come out as they went in, but for the type of the weights."""
    before, after = (without_idle(json.loads((folder / "config.json").read_text())) for folder in (theirs, ours))
    free = {"dtype", "torch_dtype", "transformers_version", "bos_token_id", "eos_token_id"}
    if "layer_types" in before:  # they say the same
        free |= {"sliding_window_pattern", "_sliding_window_pattern"}
    changed = {key: (value, after.get(key, "absent")) for key, value in before.items()
               if key not in free and not kept(value, after.get(key, "absent"))}
    assert not changed, changed


def check_old_file(binary, folder):
    """Weights as torch saved them before 1.6."""
    losses = []
    torch.manual_seed(7)
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SMALL))
    theirs.save_pretrained(folder / "theirs")
    write_data(folder, "GPT2LMHeadModel")
    (folder / "job.yaml").write_text(RECIPE)
    for name in ("new", "old"):
        accel_run(binary, folder, "job.yaml", f"name={name}", "train.until=3 steps")
        losses.append(losses_of(folder / "runs" / name))
        (folder / "theirs/model.safetensors").unlink(missing_ok=True)
        torch.save(theirs.state_dict(), folder / "theirs/pytorch_model.bin", _use_new_zipfile_serialization=False)
    assert losses[0] == losses[1], losses
    print("gpt2 from a file of torch before 1.6: the same losses")


def check_state_dict(binary, folder):
    """The state_dict of a module whose folders have other names, as scripts save it."""
    class_name, config_class, options = CASES["gpt_neox"]
    torch.manual_seed(7)
    theirs = getattr(transformers, class_name)(getattr(transformers, config_class)(**options))
    theirs.config.save_pretrained(folder / "theirs")
    assert "lm_head.weight" in theirs.state_dict()
    torch.save(theirs.state_dict(), folder / "theirs/pytorch_model.bin")
    batches = write_data(folder, class_name)
    (folder / "job.yaml").write_text(RECIPE)
    accel_run(binary, folder, "job.yaml")
    print(f"gpt_neox from a state_dict: {STEPS} losses within {Trained(theirs, batches).same_losses(folder / 'runs/job'):.1e}")


def check(binary, folder, name):
    class_name, config_class, options = CASES[name]
    torch.manual_seed(7)
    theirs = getattr(transformers, class_name)(getattr(transformers, config_class)(**options))
    if name in BF16:
        theirs.to(torch.bfloat16).save_pretrained(folder / "theirs", max_shard_size="20KB")
        assert len(list((folder / "theirs").glob("model-*.safetensors"))) > 1
        theirs = getattr(transformers, class_name).from_pretrained(folder / "theirs", dtype=torch.float32)
    else:
        theirs.save_pretrained(folder / "theirs")
    batches = write_data(folder, class_name)
    (folder / "job.yaml").write_text(RECIPE)
    accel_run(binary, folder, "job.yaml", f"optimizer.lr={rate_of(class_name)}")
    trained = Trained(theirs, batches)
    worst = trained.same_losses(folder / "runs/job")

    accel_run(binary, folder, "export", "runs/job", "--to", "ours")
    probe = batches[0][0]
    same_config(folder / "theirs", folder / "ours")
    trained.same_logits(load(class_name, folder / "ours"), probe)
    accel_run(binary, folder, "export", "runs/job", "--to", "shards", "--max-shard-size", "20 KB")
    assert len(list((folder / "shards").glob("model-*.safetensors"))) > 1
    trained.same_logits(load(class_name, folder / "shards"), probe)
    print(f"{name}: {STEPS} losses within {worst:.1e}, exported and loaded")


def main():
    binary = Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)  # as the recipe: sums of another order grow in a network with batch norms
    for name in sys.argv[2:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            check(binary, Path(folder), name)
    if sys.argv[2:]:
        return
    with tempfile.TemporaryDirectory() as folder:
        check_old_file(binary, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        check_state_dict(binary, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        check_small_images(binary, Path(folder))


if __name__ == "__main__":
    main()
