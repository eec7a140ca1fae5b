"""Writes tests/unit/models/golden/hf/NAME: a folder of transformers' for each kind of model, with random weights,
and golden.json beside them: what transformers makes of each for given inputs.

    python tests/interop/make_hf_folders.py [NAME ...]
"""

import json
import pathlib
import sys

import torch
import transformers
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests/unit/models/golden/hf"

GPT2 = {"vocab_size": 29, "n_positions": 12, "n_embd": 8, "n_layer": 2, "n_head": 2, "bos_token_id": 0,
        "eos_token_id": 1}

BERT = {"vocab_size": 29, "max_position_embeddings": 12, "hidden_size": 8, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 12, "hidden_dropout_prob": 0.0}

DISTILBERT = {"vocab_size": 29, "max_position_embeddings": 12, "dim": 8, "n_layers": 2, "n_heads": 2,
              "hidden_dim": 12, "dropout": 0.0}

LLAMA = {"vocab_size": 29, "max_position_embeddings": 64, "hidden_size": 8, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 12, "head_dim": 4}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}

NEOX = {"vocab_size": 29, "max_position_embeddings": 12, "hidden_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 12}
OPT = {"vocab_size": 29, "max_position_embeddings": 12, "hidden_size": 8, "num_hidden_layers": 2,
       "num_attention_heads": 2, "ffn_dim": 12}
DEBERTA = {**BERT, "relative_attention": True, "max_position_embeddings": 10, "pooler_dropout": 0.0}
DEBERTA_V3 = {"position_buckets": 4, "share_att_key": True, "pos_att_type": "p2c|c2p", "norm_rel_ebd": "layer_norm",
              "position_biased_input": False}

RESNET = {"num_channels": 2, "embedding_size": 2, "num_labels": 3}

# name: (class, config class, options)
CASES = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {**GPT2, "n_inner": 12, "activation_function": "relu",
                                               "layer_norm_epsilon": 1e-3, "resid_pdrop": 0.0}),
    "gpt2_untied": ("GPT2LMHeadModel", "GPT2Config", {**GPT2, "tie_word_embeddings": False}),
    "bert_classes": ("BertForSequenceClassification", "BertConfig", {**BERT, "num_labels": 3,
                                                                     "layer_norm_eps": 1e-6}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**LLAMA, "rope_parameters": LLAMA3, "attention_bias": True,
                                                  "mlp_bias": True}),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**LLAMA, "sliding_window": None,
                                                        "tie_word_embeddings": True}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {**LLAMA, "head_dim": 2, "num_key_value_heads": 4}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", LLAMA),
    "bert_tokens": ("BertForMaskedLM", "BertConfig", {**BERT, "hidden_act": "gelu_new"}),
    "vit": ("ViTForImageClassification", "ViTConfig", {
        "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12, "image_size": 6,
        "patch_size": 3, "num_channels": 2, "num_labels": 3, "qkv_bias": False, "layer_norm_eps": 1e-6}),
    "roberta_classes": ("RobertaForSequenceClassification", "RobertaConfig", {
        **BERT, "num_labels": 3, "type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "roberta_tokens": ("RobertaForMaskedLM", "RobertaConfig", {**BERT, "hidden_act": "gelu_new", "pad_token_id": 3}),
    "distilbert_classes": ("DistilBertForSequenceClassification", "DistilBertConfig", {
        **DISTILBERT, "num_labels": 3}),
    "distilbert_tokens": ("DistilBertForMaskedLM", "DistilBertConfig", {**DISTILBERT, "activation": "relu"}),
    "resnet_basic": ("ResNetForImageClassification", "ResNetConfig", {
        **RESNET, "layer_type": "basic", "depths": [2, 2, 2, 2], "hidden_sizes": [2, 4, 8, 16],
        "hidden_act": "silu"}),
    "resnet_bottleneck": ("ResNetForImageClassification", "ResNetConfig", {
        **RESNET, "layer_type": "bottleneck", "depths": [2, 2, 2, 2], "hidden_sizes": [8, 16, 32, 64],
        "downsample_in_bottleneck": True}),
    "bert_labels": ("BertForTokenClassification", "BertConfig", {**BERT, "num_labels": 5}),
    "roberta_labels": ("RobertaForTokenClassification", "RobertaConfig", {**BERT, "num_labels": 5}),
    "distilbert_labels": ("DistilBertForTokenClassification", "DistilBertConfig", {**DISTILBERT, "num_labels": 5}),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {
        **LLAMA, "num_local_experts": 5, "num_experts_per_tok": 2, "output_router_logits": True,
        "router_aux_loss_coef": 0.3}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", {
        **LLAMA, "num_hidden_layers": 4, "num_experts": 4, "num_experts_per_tok": 3, "moe_intermediate_size": 8,
        "decoder_sparse_step": 2, "attention_bias": True}),
    "qwen2_moe": ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", {
        **LLAMA, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "norm_topk_prob": True,
        "shared_expert_intermediate_size": 12}),
}

CASES |= {
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", NEOX),
    "gpt_neox_serial": ("GPTNeoXForCausalLM", "GPTNeoXConfig", {
        **NEOX, "use_parallel_residual": False, "tie_word_embeddings": True, "attention_bias": False,
        "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0, "partial_rotary_factor": 0.5}}),
    "opt": ("OPTForCausalLM", "OPTConfig", OPT),
    "opt_post_norm": ("OPTForCausalLM", "OPTConfig", {
        **OPT, "do_layer_norm_before": False, "word_embed_proj_dim": 6, "tie_word_embeddings": False}),
    "electra_classes": ("ElectraForSequenceClassification", "ElectraConfig", {
        **BERT, "embedding_size": 6, "num_labels": 3}),
    "electra_tokens": ("ElectraForMaskedLM", "ElectraConfig", {**BERT, "embedding_size": 6, "hidden_act": "relu"}),
    "electra_labels": ("ElectraForTokenClassification", "ElectraConfig", {
        **BERT, "embedding_size": 8, "num_labels": 5}),
    "deberta_classes": ("DebertaV2ForSequenceClassification", "DebertaV2Config", {
        **DEBERTA, **DEBERTA_V3, "num_labels": 3}),
    "deberta_tokens": ("DebertaV2ForMaskedLM", "DebertaV2Config", {
        **DEBERTA, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 2, "max_relative_positions": 5}),
    "deberta_labels": ("DebertaV2ForTokenClassification", "DebertaV2Config", {
        **DEBERTA, **DEBERTA_V3, "num_labels": 5, "pos_att_type": "c2p", "share_att_key": False}),
}

# What folders call a part of ViT and transformers' modules call otherwise.
STORED = [("vit.layers.", "vit.encoder.layer."), (".attention.q_proj.", ".attention.attention.query."),
          (".attention.k_proj.", ".attention.attention.key."), (".attention.v_proj.", ".attention.attention.value."),
          (".attention.o_proj.", ".attention.output.dense."), (".mlp.fc1.", ".intermediate.dense."),
          (".mlp.fc2.", ".output.dense.")]


# What folders call the router and the experts of a Mixtral.
MIXTRAL = [(".mlp.", ".block_sparse_moe."), (".gate_proj.", ".w1."), (".up_proj.", ".w3."), (".down_proj.", ".w2.")]


def expert_gradients(name, gradient):
    """The gradient of each expert's weight from that of all experts, whose gate and up are one."""
    for expert, part in enumerate(gradient):
        stem = name.replace(".experts.", f".experts.{expert}.") + ".weight"
        if name.endswith(".gate_up_proj"):
            gate, up = part.chunk(2)
            yield stem.replace("gate_up_proj", "gate_proj"), gate
            yield stem.replace("gate_up_proj", "up_proj"), up
        else:
            yield stem, part


def stored_gradients(model):
    for name, parameter in model.named_parameters():
        experts = ".experts." in name
        for own, gradient in expert_gradients(name, parameter.grad) if experts else [(name, parameter.grad)]:
            yield stored_name(model, own), gradient


def stored_name(model, name):
    for ours, stored in MIXTRAL if model.config.model_type == "mixtral" else []:
        name = name.replace(ours, stored)
    if model.config.model_type == "gpt_neox":
        name = name.replace("lm_head.", "embed_out.")
    for ours, stored in STORED if model.config.model_type == "vit" else []:
        name = name.replace(ours, stored)
    return name


def make(name, seed):
    class_name, config_class, options = CASES[name]
    torch.manual_seed(seed)
    model = getattr(transformers, class_name)(getattr(transformers, config_class)(**options))
    for parameter in model.parameters():  # norms and biases start at 1 and 0, which would show nothing
        torch.nn.init.normal_(parameter, std=0.2)
    for norm in model.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            for values in (norm.weight.data, norm.running_var):
                torch.nn.init.uniform_(values, 0.5, 1.5)
            torch.nn.init.normal_(norm.running_mean, std=0.2)
            norm.num_batches_tracked.fill_(7)
    model.tie_weights()
    model.save_pretrained(ROOT / name)
    return model.eval()


def inputs_of(model, size=2, length=8):
    lengths = torch.tensor([length, length - 3])
    if model.config.model_type == "deberta-v2" and model.config.architectures != ["DebertaV2ForSequenceClassification"]:
        lengths = torch.tensor([length, length])  # transformers gives padding another output, which nothing reads
    if model.config.model_type in ("bert", "electra") or getattr(model.config, "relative_attention", False):
        if model.config.type_vocab_size == 0:
            return {"tokens": torch.randint(model.config.vocab_size, (size, length)), "lengths": lengths}
        return {"tokens": torch.randint(model.config.vocab_size, (size, length)), "lengths": lengths,
                "segments": torch.randint(2, (size, length))}
    if model.config.model_type == "roberta":
        tokens = torch.randint(model.config.vocab_size, (size, length))
        tokens[0, 2] = model.config.pad_token_id  # has its own place, also within a text
        segments = {"segments": torch.randint(2, (size, length))} if model.config.type_vocab_size > 1 else {}
        return {"tokens": tokens, "lengths": lengths, **segments}
    if model.config.model_type == "distilbert":  # of its fill, 0, the embedding is never trained
        return {"tokens": torch.randint(1, model.config.vocab_size, (size, length)), "lengths": lengths}
    if getattr(model.config, "vocab_size", None):
        return {"tokens": torch.randint(model.config.vocab_size, (size, length))}
    side = getattr(model.config, "image_size", 16)
    return {"pixels": torch.randn(size, model.config.num_channels, side, side)}


def run(model, inputs):
    """The logits, and of the mean of their cross-entropies with class 0, and of the load-balancing loss of experts,
    the gradients' norms and sums."""
    balance = {}
    if "pixels" in inputs:
        logits = model(pixel_values=inputs["pixels"]).logits
    elif "lengths" in inputs:
        mask = torch.arange(inputs["tokens"].shape[1])[None] < inputs["lengths"][:, None]
        segments = {"token_type_ids": inputs["segments"]} if "segments" in inputs else {}
        logits = model(input_ids=inputs["tokens"], attention_mask=mask.long(), **segments).logits
    else:
        output = model(input_ids=inputs["tokens"])
        logits = output.logits
        if getattr(output, "aux_loss", None) is not None:
            balance["balance"] = output.aux_loss * model.config.router_aux_loss_coef
    flat = logits.flatten(0, -2)
    loss = F.cross_entropy(flat, torch.zeros(len(flat), dtype=torch.long))
    sum([loss, *balance.values()]).backward()
    gradients = {name: [gradient.norm().item(), gradient.sum().item()] for name, gradient in stored_gradients(model)}
    return {"logits": logits.flatten().tolist(), "shape": list(logits.shape), "loss": loss.item(),
            **{name: value.item() for name, value in balance.items()}, "gradients": gradients}


def main():
    wanted = sys.argv[1:] or list(CASES)
    path = ROOT / "golden.json"
    golden = json.loads(path.read_text()) if sys.argv[1:] else {}
    for seed, name in enumerate(CASES, 1):
        if name not in wanted:
            continue
        model = make(name, seed)
        inputs = inputs_of(model)
        labels = {"labels": True} if "TokenClassification" in CASES[name][0] else {}
        golden[name] = {**labels, "inputs": {key: {"shape": list(value.shape), "values": value.flatten().tolist()}
                                   for key, value in inputs.items()}, **run(model, inputs)}
    path.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
