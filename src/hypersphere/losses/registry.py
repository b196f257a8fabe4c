"""The heads by name, declared once: the command line, lists and the words of reports derive from this."""

from .._core.registries import HEADS
from .adaptive import AdaFace, CurricularFace, ElasticFace, MagFace
from .face import AMSoftmax, ArcFace, SphereFaceR, SubcenterArcFace
from .floored import FlooredSoftmax
from .pairs import TripletLoss
from .softmax import ASoftmax, GASoftmax, LSoftmax, Softmax, SSoftmax, WSoftmax
from .sphereface2 import SphereFace2

for _name, _head, _label, _about in (
    ("softmax", Softmax, "softmax", "cross-entropy of a linear classifier"),
    ("floored_softmax", FlooredSoftmax, "floored softmax", "the loss of the authors' public code"),
    ("w_softmax", WSoftmax, "W-Softmax", "normalised class vectors"),
    ("s_softmax", SSoftmax, "S-Softmax", "an angular function of the angle to each class vector"),
    ("ga_softmax", GASoftmax, "GA-Softmax", "generalised angular softmax"),
    ("l_softmax", LSoftmax, "L-Softmax", "a large angular margin"),
    (
        "a_softmax",
        ASoftmax,
        "SphereFace (A-Softmax)",
        "a multiplicative angular margin on normalised class vectors",
    ),
    ("am_softmax", AMSoftmax, "CosFace (AM-Softmax)", "a margin on the cosine"),
    ("arcface", ArcFace, "ArcFace", "an additive angular margin"),
    ("sphereface_r", SphereFaceR, "SphereFace-R", "a multiplicative angular margin on normalised features"),
    ("sphereface2", SphereFace2, "SphereFace2", "one binary decision for each class"),
    ("adaface", AdaFace, "AdaFace", "a margin that follows the quality of the image, by the norm of its feature"),
    ("magface", MagFace, "MagFace", "a margin that grows with the norm of the feature, which learns the quality"),
    ("elasticface", ElasticFace, "ElasticFace", "an additive margin drawn at each step"),
    ("curricularface", CurricularFace, "CurricularFace", "ArcFace whose hard negatives count more and more"),
    ("subcenter_arcface", SubcenterArcFace, "Sub-center ArcFace", "ArcFace with several vectors for a class"),
    ("triplet", TripletLoss, "triplet loss", "distances of samples, without class vectors"),
):
    HEADS.add(_name, _head, label=_label, about=_about)
HEADS.also(cosface="am_softmax", sphereface="a_softmax")  # as hs.losses.CosFace and SphereFace
