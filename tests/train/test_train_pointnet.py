"""The penalty on PointNet's feature transforms: 0.001 · Σ ‖I − AAᵀ‖²/2 over a batch of 32 in its authors' code."""

import pytest
import torch
from torch.nn import functional as F

from hypersphere import losses, models
from hypersphere.recipes import get
from hypersphere.runs import Facts
from hypersphere.train import RegularizerConfig
from hypersphere.train.build import make_objective
from hypersphere.train.objective import Objective

WIDTH = 0.125  # 8 features


def turned(num_classes=5):
    """Transforms away from orthogonal ones, differently for each cloud."""
    torch.manual_seed(0)
    model = models.create("pointnet_tnet", num_classes, width=WIDTH)
    torch.nn.init.normal_(model.body.feature_transform.matrix.weight, std=0.1)
    return model.eval()


def departure(model, clouds):
    kept = []
    handle = model.body.feature_transform.register_forward_hook(lambda _m, _i, out: kept.append(out.detach()))
    model(clouds)
    handle.remove()
    return sum(float((a @ a.T - torch.eye(8)).square().sum()) / 2 for a in kept[0])


@pytest.mark.parametrize("head", [False, True])
def test_the_loss_has_the_penalty_of_the_authors(head):
    model, clouds, labels = turned(0 if head else 5), torch.randn(4, 20, 3), torch.tensor([0, 1, 2, 3])
    margin = losses.AMSoftmax(model.feature_dim, 5) if head else None
    plain, right = Objective(model, margin)((clouds,), labels)
    full, as_before = Objective(model, margin, transform=0.001 * len(clouds))((clouds,), labels)
    expected = departure(model, clouds)
    assert expected > 0.1
    assert (full - plain).item() == pytest.approx(0.001 * expected, rel=1e-3)
    assert right == as_before
    if not head:
        assert plain.item() == pytest.approx(F.cross_entropy(model(clouds), labels).item())
    (full - plain).backward()
    assert model.body.feature_transform.matrix.weight.grad.abs().max() > 0


def test_the_mean_of_two_halves_is_the_whole():
    """So that several processes, which average their gradients, train as one."""
    model, clouds, labels = turned(), torch.randn(4, 20, 3), torch.tensor([0, 1, 2, 3])
    objective = Objective(model, None, transform=0.1)
    halves = [objective((clouds[part],), labels[part])[0] for part in (slice(0, 2), slice(2, 4))]
    assert objective((clouds,), labels)[0].item() == pytest.approx(torch.stack(halves).mean().item(), rel=1e-5)


def test_only_tnets_have_it():
    for name in ("pointnet", "mlp"):
        with pytest.raises(ValueError, match=r"regularizer.transform=0.1 needs T-Nets"):
            Objective(models.create(name, 5), None, transform=0.1)
    with pytest.raises(ValueError, match=r"regularizer\.transform"):
        RegularizerConfig(transform=-1.0)


def test_the_recipes_ask_for_it():
    for name, weight in (("pointnet_tnet", 0.032), ("pointnet", 0.0)):
        objective = make_objective(get(f"thesis.table6.8.mhe.{name}"), Facts(40), 0)
        assert objective.transform == weight
