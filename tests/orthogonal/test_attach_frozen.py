"""hs.orthogonal.attach on networks of which some weights are frozen."""

from __future__ import annotations

import pytest
import torch
from orthogonal_models import IMAGES, assert_untouched, convnet, snapshot

import hypersphere as hs


@pytest.mark.parametrize("init", ["identity", "random"])
def test_frozen_weights_are_left_alone(init: str, caplog: pytest.LogCaptureFixture) -> None:
    model = convnet()
    model[0].requires_grad_(False)
    kept = model[0].weight.detach().clone()
    hs.orthogonal.attach(model, "cayley", init=init)
    assert "attach leaves frozen weights alone: 0.weight." in caplog.text
    assert list(hs.orthogonal.matrices(model)) == ["2.weight", "4.weight", "7.weight"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(IMAGES).square().sum().backward()
    optimizer.step()
    hs.orthogonal.merge(model)
    assert torch.equal(model[0].weight, kept)
    assert not model[0].weight.requires_grad


def test_frozen_weights_are_taken_by_name_and_not_by_pattern() -> None:
    for include, expected in ((["0", "2"], ["0.weight", "2.weight"]), ("[02]", ["2.weight"])):
        model = convnet()
        model[0].requires_grad_(False)
        hs.orthogonal.attach(model, init="identity", include=include)
        assert list(hs.orthogonal.matrices(model)) == expected
    model = convnet().requires_grad_(False)
    before = snapshot(model)
    with pytest.raises(ValueError, match=r"requires_grad=False.* here 0\.weight, .*hs\.orthogonal\.adapter"):
        hs.orthogonal.attach(model, init="identity")
    assert_untouched(model, before)
