"""Modules for check_exported.py and bench/exported.py: small ones of every kind that people train.

Each case gives (module, example inputs, dims that vary, task). Data is drawn to fit the example.
"""

import torch
import transformers
from torch import nn
from torch.nn import functional as F

BATCH, CLASSES, VOCAB, LENGTH = 4, 5, 31, 12

IMAGE = (3, 16, 16)
QUIET = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
WIDTHS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


class ConvNorm(nn.Sequential):
    def __init__(self, inputs, outputs, kernel=3, stride=1, groups=1):
        super().__init__(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class LeNet(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5),
                         nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, CLASSES))


class BasicBlock(nn.Module):
    """As torchvision's."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet18(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs = width
        for stage in range(4):
            outputs = width << stage
            blocks = [BasicBlock(inputs, outputs, 1 if stage == 0 else 2), BasicBlock(outputs, outputs, 1)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
            inputs = outputs
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(inputs, CLASSES)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class UNet(nn.Module):
    """An image to an image: its loss is that of regression."""

    def __init__(self):
        super().__init__()
        self.down1, self.down2 = ConvNorm(3, 8), ConvNorm(8, 16)
        self.middle = nn.Sequential(ConvNorm(16, 32), nn.Dropout2d(0.2))
        self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.join2, self.join1 = ConvNorm(32, 16), ConvNorm(16, 8)
        self.head = nn.Conv2d(8, 3, 1)

    def forward(self, x):
        one = self.down1(x)
        two = self.down2(F.max_pool2d(one, 2))
        x = self.middle(F.max_pool2d(two, 2))
        x = self.join2(torch.cat([self.up2(x), two], 1))
        x = self.join1(torch.cat([self.up1(x), one], 1))
        return self.head(x)


class SqueezeExcite(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x):
        scale = F.adaptive_avg_pool2d(x, 1)
        return x * F.hardsigmoid(self.fc2(F.relu(self.fc1(scale))))


class MobileNet(nn.Sequential):
    def __init__(self):
        super().__init__(ConvNorm(3, 16, stride=2), ConvNorm(16, 16, groups=16), SqueezeExcite(16),
                         nn.Conv2d(16, 32, 1), nn.BatchNorm2d(32), nn.Hardswish(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(32, CLASSES))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 16)
        self.rnn = kind(16, 24, num_layers=2, batch_first=True, dropout=0.1, bidirectional=kind is nn.GRU)
        self.head = nn.Linear(48 if kind is nn.GRU else 24, CLASSES)

    def forward(self, x):
        out, _ = self.rnn(self.embed(x))
        return self.head(out[:, -1])


class Tagger(nn.Module):
    """nn.TransformerEncoder, tied weights, and an output among others."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 32)
        self.register_buffer("places", torch.randn(LENGTH, 32), persistent=False)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, VOCAB, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        hidden = self.encoder(self.embed(x) + self.places[:x.shape[1]])
        return {"hidden": hidden, "logits": self.head(hidden)}


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 24, 4, 4)
        self.tokens = nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 24), nn.GELU(), nn.Dropout(0.1))
        self.places = nn.Sequential(nn.Linear(16, 16), nn.SiLU())
        self.head = nn.Linear(24, CLASSES)

    def forward(self, x):
        x = self.patch(x).flatten(2)
        x = x + self.places(x)
        x = x.transpose(1, 2)
        x = x + self.tokens(x)
        with torch.no_grad():
            scale = x.abs().amax(dim=(1, 2), keepdim=True)
        return self.head((x / (1 + scale)).mean(1))


class Dilated(nn.Module):
    """One-dimensional convolutions with group norm, and frozen weights."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv1d(3, 16, 1)
        self.layers = nn.ModuleList(nn.Conv1d(16, 32, 3, padding=2**i, dilation=2**i) for i in range(3))
        self.norms = nn.ModuleList(nn.GroupNorm(4, 16) for _ in range(3))
        self.head = nn.Linear(16, CLASSES)
        self.stem.requires_grad_(False)

    def forward(self, x):
        x = self.stem(x)
        for layer, norm in zip(self.layers, self.norms):
            gate, value = layer(norm(x)).chunk(2, dim=1)
            x = x + torch.sigmoid(gate) * torch.tanh(value)
        return self.head(x.mean(-1))


class Gated(nn.Module):
    """Takes one of two ways, as its data says."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(8, CLASSES), nn.Linear(8, CLASSES)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.one(x).relu(), lambda x: 2 * self.other(x), (x,))


def images(module):
    return module, {"x" if not hasattr(module, "config") else "pixel_values": torch.randn(BATCH, *IMAGE)}, (), "classes"


def tokens(module, task, name="x"):
    return module, {name: torch.randint(1, VOCAB, (BATCH, LENGTH))}, (), task


def named(class_name, config_class, **options):
    config = getattr(transformers, config_class)(**options)
    return getattr(transformers, class_name)(config)


def bert(class_name="BertForSequenceClassification", config="BertConfig", **options):
    module = named(class_name, config, vocab_size=VOCAB, max_position_embeddings=16, num_labels=CLASSES, **QUIET,
                   **(options or WIDTHS))
    ids = torch.randint(1, VOCAB, (BATCH, LENGTH))
    return module, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, ("input_ids:1", "attention_mask:1"), "classes"


def language(class_name, config_class, **options):
    module = named(class_name, config_class, vocab_size=VOCAB, use_cache=False, **QUIET, **options)
    return tokens(module, "tokens", "input_ids")


def vision(class_name, config_class, **options):
    return images(named(class_name, config_class, num_labels=CLASSES, **options))


CASES = {
    "mlp": lambda: (nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, CLASSES)),
                    {"input": torch.randn(BATCH, 20)}, (), "classes"),
    "lenet": lambda: images_of_sequence(LeNet()),
    "resnet18": lambda: images(ResNet18(16)),
    "unet": lambda: (UNet(), {"x": torch.randn(BATCH, *IMAGE)}, (), "image"),
    "mobilenet": lambda: images_of_sequence(MobileNet()),
    "mixer": lambda: images(Mixer()),
    "dilated": lambda: (Dilated(), {"x": torch.randn(BATCH, 3, 20)}, (), "classes"),
    "gated": lambda: (Gated(), {"x": torch.randn(BATCH, 8)}, (), "classes"),
    "lstm": lambda: tokens(Recurrent(nn.LSTM), "classes"),
    "gru": lambda: tokens(Recurrent(nn.GRU), "classes"),
    "tagger": lambda: tokens(Tagger(), "tokens"),
    "gpt2": lambda: language("GPT2LMHeadModel", "GPT2Config", n_positions=16, n_embd=32, n_layer=2, n_head=4),
    "llama": lambda: language("LlamaForCausalLM", "LlamaConfig", max_position_embeddings=16, num_key_value_heads=2,
                              tie_word_embeddings=True, **WIDTHS),
    "qwen3": lambda: language("Qwen3ForCausalLM", "Qwen3Config", max_position_embeddings=16, num_key_value_heads=2,
                              head_dim=8, **WIDTHS),
    "bert": lambda: bert(),
    "distilbert": lambda: bert("DistilBertForSequenceClassification", "DistilBertConfig", dim=32, n_layers=2, n_heads=4,
                               hidden_dim=64),
    "electra": lambda: bert("ElectraForSequenceClassification", "ElectraConfig", embedding_size=16, **WIDTHS),
    "vit": lambda: vision("ViTForImageClassification", "ViTConfig", image_size=16, patch_size=4,
                          hidden_dropout_prob=0.1, **WIDTHS),
    "convnext": lambda: vision("ConvNextForImageClassification", "ConvNextConfig", num_stages=2, hidden_sizes=[8, 16],
                               depths=[1, 2], patch_size=2),
}


def images_of_sequence(module):
    """nn.Sequential calls its input `input`."""
    return module, {"input": torch.randn(BATCH, *IMAGE)}, (), "classes"
