"""Cora, Citeseer and Pubmed (Sen et al. 2008) with the splits of Planetoid (Yang et al. 2016): files ``ind.NAME.*``.

20 training nodes a class, the 500 nodes after them for validation, 1,000 test nodes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ._download import Remote
from ._store import Layout, Store
from ._unpickle import Array, SparseRows, unpickle
from .types import Graph

PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
# MD5 of copies that give every published count (nodes, edges, splits); the publisher states none.
MD5 = {
    "cora": "190831eee19d8f330d89d94b40a65c5a b29c36916768e1d2f55391c1aa9317ac c9083193a57057dd1238321e140194d7 "
    "78344284e3ff7fd24eb9c307d51351eb 48bf43f54fa5b86089a4bd0299795f10 125d70817fe1fdbfdcad991995e81579 "
    "b37c419cec179f45834467630c278e4c 9b822cae1d01f41e8bf8782e20367c0e",
    "citeseer": "baeb0100b5a8af8d41f928113ce0a4e5 c25ab826a7e95c0922ab625de705f7df 28486b4b9c4ee076b4eee2febd89ba86 "
    "8b99f50aa950fbbf9a7a2b71ff9cac97 356894a73b7a7eff43c3580f2fcf92a4 f0df7e5f859245e32987bfd224d01657 "
    "5f88483d5f5cc2b26b987bbbfb695005 70af39d4dff8aaa5c63f8dc526b16534",
    "pubmed": "2e93a89281c7597939cfb24976696f54 30d5abd15cf10e46ebd9514b256e0347 d6ecf5ffbdc9f8b181962d6829c7a8ac "
    "520bb2899bb8fb705181b8e34a973573 3082e367753e3a81c457f644316ca17d ab5def164b4c5b33e215b6397a84ee4b "
    "601ee2ffa59197989ff7267383a4ea46 57cdfacfa20179b9b92e077fba394d1c",
}
_SITE = "https://github.com/kimiyoung/planetoid/raw/master/data"
VALIDATION = 500


def _layout(name: str) -> Layout:
    files = [f"ind.{name}.{part}" for part in PARTS]
    remotes = tuple(
        Remote(f"{_SITE}/{file}", f"planetoid/{file}", md5) for file, md5 in zip(files, MD5[name].split(), strict=True)
    )
    return Layout(("planetoid", f"{name}/raw"), tuple((file,) for file in files), remotes)


PLANETOID = {name: _layout(name) for name in MD5}


def planetoid(store: Store) -> Graph:
    """Read ``planetoid/ind.NAME.*`` for the ``NAME`` that the store asks for; nothing pickled is executed.

    Test nodes that no file describes (15 in Citeseer) keep zero features and are in none of the three sets. Classes
    have numbers for names, since the files give none.
    """
    name = store.name
    _, folder = store.locate(PLANETOID[name])
    checksums = dict(zip(PARTS, MD5[name].split(), strict=True))

    def content(part: str) -> bytes:
        return store.read(folder / f"ind.{name}.{part}", checksums[part])

    def matrix(part: str) -> Tensor:
        return _matrix(unpickle(content(part), str(folder / f"ind.{name}.{part}")), folder / f"ind.{name}.{part}")

    order = torch.tensor([int(line) for line in content("test.index").split()])
    if not len(order) or order.min() < 0:
        raise ValueError(f"{folder / f'ind.{name}.test.index'} does not list the test nodes")
    known, test_features = matrix("allx"), matrix("tx")
    nodes = max(len(known), int(order.max()) + 1)
    features = torch.zeros(nodes, known.shape[1])
    features[: len(known)] = known
    features[order] = test_features
    onehot = torch.zeros(nodes, matrix("y").shape[1])
    onehot[: len(known)] = matrix("ally").float()
    onehot[order] = matrix("ty").float()
    train = torch.arange(len(matrix("y")))
    graph = unpickle(content("graph"), str(folder / f"ind.{name}.graph"))
    return Graph(
        name=name,
        features=features,
        edges=_edges(graph, nodes),
        labels=onehot.argmax(1),
        train=train,
        val=torch.arange(len(train), len(train) + VALIDATION),
        test=order.sort().values,
        classes=tuple(map(str, range(onehot.shape[1]))),
    )


def _matrix(value: Any, path: Path) -> Tensor:
    if not isinstance(value, Array | SparseRows):
        raise ValueError(f"{path} holds a {type(value).__name__}, not a matrix")
    found = value.tensor()
    if found.ndim != 2:
        raise ValueError(f"{path} holds values of shape {tuple(found.shape)}, not a matrix")
    return found


def _edges(graph: dict[int, list[int]], nodes: int) -> Tensor:
    """Neighbour lists to sorted pairs in both directions, each once, without self-loops."""
    listed = torch.tensor([(node, other) for node, others in graph.items() for other in others]).view(-1, 2).T
    both = torch.cat([listed, listed.flip(0)], 1)
    both = both[:, both[0] != both[1]]
    code = (both[0] * nodes + both[1]).unique()
    return torch.stack([code // nodes, code % nodes])
