"""The relaxed penalty is that of the whole R, however its blocks are kept."""

import pytest
import torch

import hypersphere as hs


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_the_penalty_is_that_of_the_dense_matrix(blocks, share):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 5), torch.nn.Linear(5, 2)).double()
    hs.orthogonal.attach(model, "relaxed", blocks=blocks, share_blocks=share)
    with torch.no_grad():
        for parameter in model[0].parametrizations.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    (dense,) = hs.orthogonal.matrices(model).values()
    expected = 0.5 * (dense.mT @ dense - torch.eye(8, dtype=dense.dtype)).square().sum()
    torch.testing.assert_close(hs.orthogonal.penalty(model, 0.5), expected)
