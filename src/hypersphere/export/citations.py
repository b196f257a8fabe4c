"""Whom to cite: the library and the works it implements."""

LIBRARY = (
    "The hypersphere authors. hypersphere: deep learning on the hypersphere for PyTorch. MIT licence.",
    "Weiyang Liu, Yan-Ming Zhang, Xingguo Li, Zhiding Yu, Bo Dai, Tuo Zhao, Le Song. "
    "Deep Hyperspherical Learning. Advances in Neural Information Processing Systems 30, 2017.",
    "Weiyang Liu. Deep Representation Learning on Hypersphere. Georgia Institute of Technology, 2020.",
)
