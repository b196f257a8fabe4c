"""Which kernels serve on a GPU without being asked for, and how one asks."""

from types import SimpleNamespace

import pytest

from hypersphere import kernels
from hypersphere.kernels import launch
from hypersphere.kernels.fitting import fitting


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


@pytest.mark.parametrize(
    ("tiles", "registers", "programs"),
    [(32768, 128, 8), (32768, 96, 10), (32768, 80, 12), (4096, 96, 5), (100, 96, 100 / 132), (1, 255, 1 / 132)],
)
def test_programs_that_share_tiles_run_in_full_turns(tiles, registers, programs):
    """4, 5 or 6 programs of four warps run at a time on each of 132 multiprocessors of 65,536 registers."""
    device = SimpleNamespace(
        regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, multi_processor_count=132
    )
    assert fitting(tiles, registers, 4, device) == round(programs * 132)
