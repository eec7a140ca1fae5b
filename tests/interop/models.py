"""The built-in models as PyTorch modules: same layers, same order, same names.

Built after `torch.manual_seed(s)`, each has the weights that accel-run's has for `seed: s`, and the
same losses on the CPU. BUILD maps a model's name to a function of its resolved options.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Linear(nn.Linear):
    def forward(self, x):
        return super().forward(x.flatten(1))


class Mlp(nn.Module):
    def __init__(self, inputs, outputs, hidden=(128,), activation="relu", dropout=0.0):
        super().__init__()
        widths = [inputs, *hidden, outputs]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.activation = {"relu": F.relu, "gelu": F.gelu, "tanh": torch.tanh}[activation]
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = self.dropout(self.activation(layer(x)))
        return self.layers[-1](x)


class LeNet(nn.Module):
    def __init__(self, image, classes, filters=(20, 50), hidden=500, dropout=0.0):
        super().__init__()
        channels, height, width = image
        sides = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
        self.conv1 = nn.Conv2d(channels, filters[0], 5)
        self.conv2 = nn.Conv2d(filters[0], filters[1], 5)
        self.fc1 = nn.Linear(filters[1] * sides[0] * sides[1], hidden)
        self.fc2 = nn.Linear(hidden, classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc2(self.dropout(x))


def convolution(channels_in, channels_out, kernel, stride=1):
    return nn.Conv2d(
        channels_in, channels_out, kernel, stride=stride, padding=kernel // 2, bias=False
    )


class ResNetBlock(nn.Module):
    def __init__(self, channels, width, stride, bottleneck):
        super().__init__()
        self.channels_out = width * 4 if bottleneck else width
        shortcut = None
        if stride != 1 or channels != self.channels_out:
            shortcut = nn.Sequential(
                convolution(channels, self.channels_out, 1, stride),
                nn.BatchNorm2d(self.channels_out),
            )
        if bottleneck:
            shapes = [
                (channels, width, 1, 1),
                (width, width, 3, stride),
                (width, self.channels_out, 1, 1),
            ]
        else:
            shapes = [(channels, width, 3, stride), (width, width, 3, 1)]
        self.depth = len(shapes)
        for i, shape in enumerate(shapes, 1):
            self.add_module(f"conv{i}", convolution(*shape))
            self.add_module(f"bn{i}", nn.BatchNorm2d(shape[1]))
        self.downsample = shortcut

    def last_norm(self):
        return getattr(self, f"bn{self.depth}")

    def forward(self, inputs):
        x = inputs
        for i in range(1, self.depth + 1):
            x = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x))
            if i < self.depth:
                x = F.relu(x)
        return F.relu(x + (inputs if self.downsample is None else self.downsample(inputs)))


class ResNet(nn.Module):
    def __init__(self, depth, stem, channels, classes, width=64, zero_init_residual=False):
        super().__init__()
        counts = [2, 2, 2, 2] if depth == 18 else [3, 4, 6, 3]
        imagenet = stem == "imagenet"
        kernel, stride = (7, 2) if imagenet else (3, 1)
        self.conv1 = convolution(channels, width, kernel, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1) if imagenet else nn.Identity()
        channels = width
        for stage, count in enumerate(counts):
            blocks = []
            for i in range(count):
                stride = 2 if stage > 0 and i == 0 else 1
                blocks.append(ResNetBlock(channels, width << stage, stride, depth == 50))
                channels = blocks[-1].channels_out
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif zero_init_residual and isinstance(module, ResNetBlock):
                nn.init.zeros_(module.last_norm().weight)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class GptAttention(nn.Module):
    def __init__(self, heads, width, dropout):
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.heads = heads
        self.dropout = dropout

    def forward(self, x):
        batch, context, width = x.shape
        q, k, v = (
            part.view(batch, context, self.heads, width // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=2)
        )
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        y = y.transpose(1, 2).reshape(batch, context, width)
        return F.dropout(self.c_proj(y), self.dropout, self.training)


class GptMlp(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))


class GptBlock(nn.Module):
    def __init__(self, heads, width, dropout):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = GptAttention(heads, width, dropout)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = GptMlp(width, dropout)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, vocab, context, layers=4, heads=4, width=128, dropout=0.0):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocab, width),
                "wpe": nn.Embedding(context, width),
                "drop": nn.Dropout(dropout),
                "h": nn.ModuleList(GptBlock(heads, width, dropout) for _ in range(layers)),
                "ln_f": nn.LayerNorm(width),
            }
        )
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers))

    def forward(self, tokens):
        net = self.transformer
        x = net.drop(net.wte(tokens) + net.wpe(torch.arange(tokens.size(1), device=tokens.device)))
        for block in net.h:
            x = block(x)
        return F.linear(net.ln_f(x), net.wte.weight)


BUILD = {
    "linear": lambda options: Linear(options["inputs"], options["outputs"]),
    "mlp": lambda options: Mlp(**options),
    "lenet": lambda options: LeNet(**options),
    "resnet": lambda options: ResNet(**options),
    "gpt": lambda options: Gpt(**options),
}
