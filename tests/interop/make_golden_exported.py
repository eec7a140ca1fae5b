"""Writes the exported programs that the unit tests read, and what Python makes of them.

`make_golden_exported.py --check` only compares the numbers with what PyTorch gives now.
"""

import argparse
import json
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import torch
from export_model import export_model
from torch import nn
from torch.nn import functional as F

FOLDER = ROOT / "tests/unit/models/golden/exported"
BATCH, STEPS, SEED, LR = 4, 3, 5, 0.1


class Mixed(nn.Module):
    """Batch norm, dropout, a tied weight, a buffer that state_dict() leaves out, a constant, two outputs."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.25)
        self.last = nn.Linear(4, 4, bias=False)
        self.last.weight = self.first.weight
        self.register_buffer("scale", torch.tensor([1.0, 0.5, 2.0, 1.5]), persistent=False)

    def forward(self, x):
        hidden = self.drop(torch.relu(self.norm(self.first(x))))
        with torch.no_grad():
            level = hidden.abs().mean()
        return {"hidden": hidden, "logits": self.last(hidden) * self.scale + level * torch.tensor([0.5, 0.0, 0.0, 0.0])}


class Words(nn.Module):
    """Attention over tokens, some of them fill: sizes are computed, and a mask is taken."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.mix = nn.Linear(4, 12)
        self.head = nn.Linear(4, 3)
        self.head.bias.requires_grad_(False)

    def forward(self, input_ids, attention_mask):
        query, key, value = self.mix(self.embed(input_ids)).chunk(3, dim=-1)
        seen = attention_mask.bool().unsqueeze(1)
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=seen, dropout_p=0.1 if self.training else 0.0)
        mask = attention_mask.unsqueeze(-1).to(out.dtype)
        mean = (out * mask).sum(1) / mask.sum(1)
        halves = out.reshape(input_ids.shape[0] * 2, -1).mean(1).view(-1, 2)
        return self.head(mean) + halves.sum(1, keepdim=True)


def numbers(count):
    return torch.tensor([math.sin(3.0 * i + 1.0) for i in range(count)])


def mixed_inputs():
    return {"x": numbers(BATCH * 4).view(BATCH, 4)}


def words_inputs():
    ids = torch.tensor([[(3 * row + 5 * place) % 7 for place in range(6)] for row in range(BATCH)])
    return {"input_ids": ids, "attention_mask": torch.tensor([[int(p < 6 - row) for p in range(6)] for row in range(BATCH)])}


CASES = {
    "mixed": (Mixed, mixed_inputs, (), 4),
    "words": (Words, words_inputs, ("input_ids:1", "attention_mask:1"), 3),
}


def logits_of(module, inputs):
    out = module(**inputs)
    return out["logits"] if isinstance(out, dict) else out


def expected(module, inputs, classes):
    targets = torch.arange(BATCH) % classes
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=LR)
    torch.manual_seed(SEED)
    losses = []
    for _ in range(STEPS):
        loss = F.cross_entropy(logits_of(module.train(), inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        logits = logits_of(module.eval(), inputs)
    return {"classes": classes, "losses": losses, "eval": logits.flatten().tolist(),
            "parameters": [name for name, _ in module.named_parameters()],
            "buffers": [name for name, _ in module.named_buffers() if name in module.state_dict()]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    golden = {}
    for name, (kind, make_inputs, vary, classes) in CASES.items():
        torch.manual_seed(1)
        module, inputs = kind(), make_inputs()
        if not check:
            program = export_model(module, inputs, FOLDER / f"{name}.pt2", vary)
            if name == "mixed":
                torch.export.save(program, FOLDER / "mixed_train_only.pt2")
                torch.jit.script(module).save(FOLDER / "mixed_script.pt")
        golden[name] = expected(module, inputs, classes)
    path = FOLDER / "golden.json"
    if check:
        kept = json.loads(path.read_text())
        for name, now in golden.items():
            for key in ("losses", "eval"):
                worst = max(abs(a - b) for a, b in zip(now[key], kept[name][key], strict=True))
                assert worst < 1e-5, (name, key, worst)
        return
    path.write_text(json.dumps(golden, indent=1) + "\n")
    data = ROOT / "recipes/tiny/data"
    sys.path.insert(0, str(data))
    import flower_model  # as a module: TorchScript wants to read its source

    export_model(flower_model.model(), flower_model.example(), data / "flowers.pt2")
    torch.jit.script(flower_model.model()).save(data / "flowers_script.pt")


if __name__ == "__main__":
    main()
