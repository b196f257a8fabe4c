"""Options of CoMHE that another projection has."""

import pytest
from torch import nn

from hypersphere.regularizers import CoMHE


@pytest.mark.parametrize(
    ("projection", "options", "complaint"),
    [
        ("random", {"unroll": 2}, "unroll=2 changes nothing with projection='random': it is for angle_preserving"),
        ("random", {"group": 3}, "group=3 changes nothing"),
        ("group", {"count": 4}, "count=4 changes nothing with projection='group': it is for random"),
        ("group", {"matrix": "hadamard"}, "matrix='hadamard' changes nothing"),
        ("bilateral", {"inner_lr": 0.5}, "inner_lr=0.5 changes nothing"),
        ("learned", {"preserve": "angle"}, "preserve='angle' changes nothing .* it is for angle_preserving$"),
        ("adversarial", {"stochastic": True}, "stochastic=True changes nothing"),
        ("learned", {"unroll": 1, "inner_steps": 3}, "inner_steps=3 is for unroll=0"),
    ],
)
def test_options_of_another_projection_are_refused(projection, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        CoMHE(nn.Sequential(nn.Linear(50, 8), nn.Linear(8, 3)), projection=projection, dim=5, **options)
