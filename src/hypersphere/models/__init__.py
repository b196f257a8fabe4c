"""The networks of the paper and the dissertation by name: one grammar of stages, with any operator in any slot."""

from .gan import Generator
from .gcn import GCN, normalize_adjacency
from .grammar import Conv, Pool, Unit
from .network import Network, image_network
from .pointnet import PointNet
from .pointnet2 import PointNet2
from .registry import create, describe, list_models, options
from .slots import Slots

__all__ = [
    "GCN",
    "Conv",
    "Generator",
    "Network",
    "PointNet",
    "PointNet2",
    "Pool",
    "Slots",
    "Unit",
    "create",
    "describe",
    "image_network",
    "list_models",
    "normalize_adjacency",
    "options",
]
