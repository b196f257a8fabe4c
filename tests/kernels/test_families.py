"""Which kernels serve on a GPU without being asked for, and how one asks."""

import pytest

from hypersphere import kernels
from hypersphere.kernels import launch


@pytest.fixture(autouse=True)
def _as_it_was():
    before = set(launch._enabled)
    yield
    kernels.enable(*before)


def test_families_are_chosen_by_name():
    kernels.enable("heads", "energy")
    assert [launch.enabled(name) for name in ("heads", "energy", "operators")] == [True, True, False]
    with pytest.raises(ValueError, match="family='head' is unknown"):
        kernels.enable("head")
    assert launch.enabled("heads")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("", {name for name, on in kernels.FAMILIES.items() if on}),
        ("all", set(kernels.FAMILIES)),
        ("none", set()),
        ("heads, pooling", {"heads", "pooling"}),
    ],
)
def test_the_environment_chooses_at_the_start(asked, expected, monkeypatch):
    monkeypatch.setenv("HYPERSPHERE_KERNELS", asked)
    assert launch._at_start() == expected


def test_a_mistaken_environment_is_named(monkeypatch):
    monkeypatch.setenv("HYPERSPHERE_KERNELS", "haeds")
    with pytest.raises(ValueError, match="HYPERSPHERE_KERNELS='haeds' is unknown"):
        launch._at_start()
