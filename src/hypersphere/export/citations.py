"""Whom to cite: the library and the works it implements, and the makers of each data set."""

LIBRARY = (
    "The hypersphere authors. hypersphere: deep learning on the hypersphere for PyTorch. MIT licence.",
    "Weiyang Liu, Yan-Ming Zhang, Xingguo Li, Zhiding Yu, Bo Dai, Tuo Zhao, Le Song. "
    "Deep Hyperspherical Learning. Advances in Neural Information Processing Systems 30, 2017.",
    "Weiyang Liu. Deep Representation Learning on Hypersphere. Georgia Institute of Technology, 2020.",
)

_CIFAR = "Alex Krizhevsky. Learning Multiple Layers of Features from Tiny Images. Technical report, 2009."
_PLANETOID = (
    "Prithviraj Sen, Galileo Namata, Mustafa Bilgic, Lise Getoor, Brian Gallagher, Tina Eliassi-Rad. Collective "
    "Classification in Network Data. AI Magazine, 2008; split of Zhilin Yang, William Cohen, Ruslan Salakhutdinov. "
    "Revisiting Semi-Supervised Learning with Graph Embeddings. ICML 2016."
)

DATA = {
    "casia": "Dong Yi, Zhen Lei, Shengcai Liao, Stan Z. Li. Learning Face Representation from Scratch. 2014.",
    "cifar10": _CIFAR,
    "cifar100": _CIFAR,
    "citeseer": _PLANETOID,
    "cora": _PLANETOID,
    "cub": (
        "Catherine Wah, Steve Branson, Peter Welinder, Pietro Perona, Serge Belongie. The Caltech-UCSD "
        "Birds-200-2011 Dataset. California Institute of Technology, 2011."
    ),
    "digits": (
        "Ethem Alpaydin, Cenk Kaynak. Optical Recognition of Handwritten Digits. UCI Machine Learning Repository, "
        "1998 (its test part, as it comes with scikit-learn)."
    ),
    "folder": "your own images: cite those who took them.",
    "fashion_mnist": (
        "Han Xiao, Kashif Rasul, Roland Vollgraf. Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine "
        "Learning Algorithms. 2017."
    ),
    "imagenet": (
        "Olga Russakovsky, Jia Deng, Hao Su, and others. ImageNet Large Scale Visual Recognition Challenge. IJCV 2015."
    ),
    "imdb_face": (
        "Fei Wang, Liren Chen, Cheng Li, Shiyao Huang, Yanjie Chen, Chen Qian, Chen Change Loy. The Devil of Face "
        "Recognition is in the Noise. ECCV 2018."
    ),
    "lfw": (
        "Gary B. Huang, Manu Ramesh, Tamara Berg, Erik Learned-Miller. Labeled Faces in the Wild: A Database for "
        "Studying Face Recognition in Unconstrained Environments. University of Massachusetts, Amherst, 2007."
    ),
    "megaface": (
        "Ira Kemelmacher-Shlizerman, Steven M. Seitz, Daniel Miller, Evan Brossard. The MegaFace Benchmark: 1 Million "
        "Faces for Recognition at Scale. CVPR 2016."
    ),
    "miniimagenet": (
        "Oriol Vinyals, Charles Blundell, Timothy Lillicrap, Koray Kavukcuoglu, Daan Wierstra. Matching Networks for "
        "One Shot Learning. NIPS 2016; images of ImageNet."
    ),
    "mnist": (
        "Yann LeCun, Léon Bottou, Yoshua Bengio, Patrick Haffner. Gradient-Based Learning Applied to Document "
        "Recognition. Proceedings of the IEEE, 1998."
    ),
    "modelnet40": (
        "Zhirong Wu, Shuran Song, Aditya Khosla, Fisher Yu, Linguang Zhang, Xiaoou Tang, Jianxiong Xiao. 3D ShapeNets: "
        "A Deep Representation for Volumetric Shapes. CVPR 2015."
    ),
    "ms_celeb": (
        "Yandong Guo, Lei Zhang, Yuxiao Hu, Xiaodong He, Jianfeng Gao. MS-Celeb-1M: A Dataset and Benchmark for "
        "Large-Scale Face Recognition. ECCV 2016."
    ),
    "omniglot": (
        "Brenden M. Lake, Ruslan Salakhutdinov, Joshua B. Tenenbaum. Human-level concept learning through "
        "probabilistic program induction. Science, 2015."
    ),
    "pubmed": _PLANETOID,
    "ytf": (
        "Lior Wolf, Tal Hassner, Itay Maoz. Face Recognition in Unconstrained Videos with Matched Background "
        "Similarity. CVPR 2011."
    ),
}
