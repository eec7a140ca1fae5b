"""The module of recipes/tiny/exported.yaml: what tools/export_model.py is given."""

import torch
from torch import nn


class FlowerNet(nn.Module):
    def __init__(self, features=5, classes=2):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        return self.head(self.body(x))


def model():
    torch.manual_seed(0)
    return FlowerNet()


def example():
    return {"x": torch.randn(8, 5)}
