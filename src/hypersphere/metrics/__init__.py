"""Metrics: measurements of features, class vectors and neurons, and the evaluation protocols of the field.

They take tensors, NumPy arrays and lists. Labels may be names. These are numbered in sorted order, or in the order of
the argument ``classes`` if a function has it; if there are class vectors or logits, every class must then occur.
Rates are fractions in [0, 1].
:mod:`hypersphere.metrics.streaming` has them as torchmetrics (extra ``[metrics]``).
"""

from ._angles import (
    angular_fisher_score,
    angular_visual_hardness,
    covering_radius,
    separation_distance,
    uniformity,
)
from ._classification import ClassificationResult, classification, cosine_confusion
from ._components import PrincipalComponents, principal_components
from ._few_shot import FewShotResult, few_shot
from ._holes import hole_radii
from ._identification import identification
from ._identification_result import IdentificationResult
from ._inception import InceptionResult, inception_score
from ._pairs import pair_scores, verify_pairs
from ._retrieval import RetrievalResult, retrieval
from ._roc import ROC
from ._verification import VerificationResult, verification, verification_split

__all__ = [
    "ROC",
    "ClassificationResult",
    "FewShotResult",
    "IdentificationResult",
    "InceptionResult",
    "PrincipalComponents",
    "RetrievalResult",
    "VerificationResult",
    "angular_fisher_score",
    "angular_visual_hardness",
    "classification",
    "cosine_confusion",
    "covering_radius",
    "few_shot",
    "hole_radii",
    "identification",
    "inception_score",
    "pair_scores",
    "principal_components",
    "retrieval",
    "separation_distance",
    "uniformity",
    "verification",
    "verification_split",
    "verify_pairs",
]
