"""Principal components of features, against the eigenvectors of the covariance and scikit-learn."""

import numpy as np
import pytest
import torch

import hypersphere as hs


def features(count=40, dim=6):
    torch.manual_seed(1)
    return torch.randn(count, dim, dtype=torch.float64) @ torch.randn(dim, dim, dtype=torch.float64) + 3.0


def test_directions_are_eigenvectors_of_the_covariance():
    x = features()
    found = hs.metrics.principal_components(x, 3)
    values, vectors = np.linalg.eigh(np.cov(x.numpy().T))
    torch.testing.assert_close(found.variances, torch.from_numpy(values[::-1][:3].copy()))
    ours, theirs = found.directions.numpy(), vectors[:, ::-1][:, :3].T
    assert np.allclose(np.abs((ours * theirs).sum(1)), 1)
    assert found.share == pytest.approx(values[::-1][:3].sum() / values.sum())
    assert (found.directions.gather(1, found.directions.abs().argmax(1, keepdim=True)) > 0).all()


@pytest.mark.parametrize("whiten", [False, True])
def test_coordinates_are_those_of_scikit_learn(whiten):
    decomposition = pytest.importorskip("sklearn.decomposition")
    x, y = features(), features(7)
    theirs = decomposition.PCA(4, whiten=whiten, svd_solver="full").fit(x.numpy()).transform(y.numpy())
    ours = hs.metrics.principal_components(x, 4, whiten=whiten)(y).numpy()
    assert np.allclose(np.abs(ours), np.abs(theirs))


def test_all_directions_only_turn_the_features():
    x = features()
    turned = hs.metrics.principal_components(x, 6)(x)
    torch.testing.assert_close(torch.pdist(turned), torch.pdist(x))
    assert hs.metrics.principal_components(x.float(), 6)(x.float()).dtype == torch.float32


def test_more_components_than_directions_raise_an_error():
    with pytest.raises(ValueError, match="dim=7 is more"):
        hs.metrics.principal_components(features(), 7)
    with pytest.raises(ValueError, match="at most 2"):
        hs.metrics.principal_components(features(3), 3)
    flat = features() * torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    with pytest.raises(ValueError, match="vary in 2 directions"):
        hs.metrics.principal_components(flat, 3, whiten=True)
    with pytest.raises(ValueError, match="dimension 5"):
        hs.metrics.principal_components(features(), 2)(torch.randn(2, 5))
