"""The data sets by name, each declared once: its reader, a line about it, whom to cite, and where its files lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from .._core.registries import DATASETS
from .._core.registry import parameters_of
from ._store import Layout
from .cifar import CIFAR10, CIFAR100, cifar10, cifar100
from .digits import digits
from .faces import megaface, people, ytf
from .few_shot import few_shot_tree
from .folder import imagenet
from .lfw import LFW, lfw
from .mnist import FASHION_MNIST, MNIST, fashion_mnist, mnist
from .modelnet import MODELNET40, modelnet40
from .omniglot import OMNIGLOT, omniglot
from .own import own_images
from .planetoid import PLANETOID, planetoid


@dataclass(frozen=True)
class Source:
    """How a name is read.

    Attributes:
        read: Makes the data set from a store of files.
        about: A line about it: its name, a colon, and what is in it.
        citation: Whom to cite.
        layouts: The layouts that its files may have; none if they are not checked.
        of: What it shows: ``"images"``, ``"people"``, a ``"graph"`` or point ``"clouds"``.
    """

    read: Callable[..., Any]
    about: str
    citation: str
    layouts: tuple[Layout, ...] = ()
    of: str = "images"


_CIFAR = "Alex Krizhevsky. Learning Multiple Layers of Features from Tiny Images. Technical report, 2009."
_PLANETOID = (
    "Prithviraj Sen, Galileo Namata, Mustafa Bilgic, Lise Getoor, Brian Gallagher, Tina Eliassi-Rad. Collective "
    "Classification in Network Data. AI Magazine, 2008; split of Zhilin Yang, William Cohen, Ruslan Salakhutdinov. "
    "Revisiting Semi-Supervised Learning with Graph Embeddings. ICML 2016."
)

for _name, _source in {
    "casia": Source(
        people,
        "CASIA-WebFace: 494,414 faces of 10,575 people, to learn from, streamed with FolderLoader",
        "Dong Yi, Zhen Lei, Shengcai Liao, Stan Z. Li. Learning Face Representation from Scratch. 2014.",
        of="people",
    ),
    "cifar10": Source(cifar10, "CIFAR-10: 50,000 + 10,000 colour images 32×32, 10 classes", _CIFAR, (CIFAR10,)),
    "cifar100": Source(cifar100, "CIFAR-100: 50,000 + 10,000 colour images 32×32, 100 classes", _CIFAR, (CIFAR100,)),
    "citeseer": Source(
        planetoid, "Citeseer: a graph of 3,327 papers, 6 classes", _PLANETOID, (PLANETOID["citeseer"],), of="graph"
    ),
    "cora": Source(planetoid, "Cora: a graph of 2,708 papers, 7 classes", _PLANETOID, (PLANETOID["cora"],), of="graph"),
    "cub": Source(
        few_shot_tree,
        "CUB-200-2011 for few-shot learning: a tree of 100 base, 50 + 50 new kinds of birds",
        "Catherine Wah, Steve Branson, Peter Welinder, Pietro Perona, Serge Belongie. The Caltech-UCSD "
        "Birds-200-2011 Dataset. California Institute of Technology, 2011.",
    ),
    "digits": Source(
        digits,
        "scikit-learn's digits: 1,442 + 355 grey images 8×8, 10 classes; always there",
        "Ethem Alpaydin, Cenk Kaynak. Optical Recognition of Handwritten Digits. UCI Machine Learning "
        "Repository, 1998 (its test part, as it comes with scikit-learn).",
    ),
    "fashion_mnist": Source(
        fashion_mnist,
        "Fashion-MNIST: 60,000 + 10,000 grey images 28×28, 10 classes",
        "Han Xiao, Kashif Rasul, Roland Vollgraf. Fashion-MNIST: a Novel Image Dataset for Benchmarking "
        "Machine Learning Algorithms. 2017.",
        (FASHION_MNIST,),
    ),
    "folder": Source(
        own_images,
        "your own images: a folder of classes, a tree of splits, or a CSV table",
        "your own images: cite those who took them.",
    ),
    "imagenet": Source(
        imagenet,
        "ImageNet-2012: a tree train/<class>, val/<class>, streamed with FolderLoader",
        "Olga Russakovsky, Jia Deng, Hao Su, and others. ImageNet Large Scale Visual Recognition Challenge. IJCV 2015.",
    ),
    "imdb_face": Source(
        people,
        "IMDb-Face: 1.7 million faces of 56,000 people, to learn from",
        "Fei Wang, Liren Chen, Cheng Li, Shiyao Huang, Yanjie Chen, Chen Qian, Chen Change Loy. The Devil of "
        "Face Recognition is in the Noise. ECCV 2018.",
        of="people",
    ),
    "lfw": Source(
        lfw,
        "LFW: 13,233 faces of 5,749 people, 6,000 pairs",
        "Gary B. Huang, Manu Ramesh, Tamara Berg, Erik Learned-Miller. Labeled Faces in the Wild: A Database "
        "for Studying Face Recognition in Unconstrained Environments. University of Massachusetts, Amherst, "
        "2007.",
        (LFW,),
        of="people",
    ),
    "miniimagenet": Source(
        few_shot_tree,
        "mini-ImageNet: a tree of 64 base classes, 16 + 20 new ones, 600 images each",
        "Oriol Vinyals, Charles Blundell, Timothy Lillicrap, Koray Kavukcuoglu, Daan Wierstra. Matching "
        "Networks for One Shot Learning. NIPS 2016; images of ImageNet.",
    ),
    "megaface": Source(
        megaface,
        "MegaFace: FaceScrub's people, searched among a million faces of others",
        "Ira Kemelmacher-Shlizerman, Steven M. Seitz, Daniel Miller, Evan Brossard. The MegaFace Benchmark: 1"
        " Million Faces for Recognition at Scale. CVPR 2016.",
        of="people",
    ),
    "mnist": Source(
        mnist,
        "MNIST: 60,000 + 10,000 grey images 28×28, 10 classes",
        "Yann LeCun, Léon Bottou, Yoshua Bengio, Patrick Haffner. Gradient-Based Learning Applied to Document"
        " Recognition. Proceedings of the IEEE, 1998.",
        (MNIST,),
    ),
    "modelnet40": Source(
        modelnet40,
        "ModelNet40: 9,843 + 2,468 point clouds, 40 classes",
        "Zhirong Wu, Shuran Song, Aditya Khosla, Fisher Yu, Linguang Zhang, Xiaoou Tang, Jianxiong Xiao. 3D "
        "ShapeNets: A Deep Representation for Volumetric Shapes. CVPR 2015.",
        MODELNET40,
        of="clouds",
    ),
    "ms_celeb": Source(
        people,
        "MS-Celeb-1M: 8.6 million faces of 96,000 people, to learn from",
        "Yandong Guo, Lei Zhang, Yuxiao Hu, Xiaodong He, Jianfeng Gao. MS-Celeb-1M: A Dataset and Benchmark "
        "for Large-Scale Face Recognition. ECCV 2016.",
        of="people",
    ),
    "omniglot": Source(
        omniglot,
        "Omniglot: 964 + 659 characters, 20 drawings 105×105 each",
        "Brenden M. Lake, Ruslan Salakhutdinov, Joshua B. Tenenbaum. Human-level concept learning through "
        "probabilistic program induction. Science, 2015.",
        OMNIGLOT,
    ),
    "pubmed": Source(
        planetoid, "Pubmed: a graph of 19,717 papers, 3 classes", _PLANETOID, (PLANETOID["pubmed"],), of="graph"
    ),
    "ytf": Source(
        ytf,
        "YouTube Faces: 3,425 videos of 1,595 people, 5,000 pairs of videos",
        "Lior Wolf, Tal Hassner, Itay Maoz. Face Recognition in Unconstrained Videos with Matched Background "
        "Similarity. CVPR 2011.",
        of="people",
    ),
}.items():
    _label, _told = _source.about.partition(":")[0], partial(parameters_of, _source.read)
    DATASETS.add(_name, _source, label=_label, about=_source.about, parameters=_told)
