"""A network as a user writes one."""

from torch import nn


class Net(nn.Module):
    def __init__(self, num_classes=10, width=8):
        super().__init__()
        self.feature_dim = width
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU())
        self.classifier = nn.Linear(width, num_classes) if num_classes else nn.Identity()

    def features(self, x):
        return self.body(x)

    def forward(self, x):
        return self.classifier(self.features(x))


class Bare(nn.Module):
    """No method ``features``, but a part of that name, as in the networks of torchvision; no ``classifier``."""

    def __init__(self, num_classes=10):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.fc = nn.Linear(3, num_classes)

    def forward(self, x):
        return self.fc(self.features(x).flatten(1))
