"""What our numbers say about the published ones: intervals against a reference, verdicts by their rule."""

import pytest

from hypersphere.recipes import tables
from hypersphere.recipes.evidence import Evidence, baseline, evidence, not_run, student_t

TABLE = tables()["thesis.table7.11"]
CELLS = {cell.name: cell for cell in TABLE.cells}


def measured(cell, *values, steps=200, **extra):
    return [
        {"cell": cell, "seed": seed, "steps": steps, "final_accuracy": value, "metrics": {}, **extra}
        for seed, value in enumerate(values)
    ]


def test_quantiles_of_student():
    stats = pytest.importorskip("scipy.stats")
    for freedom in (1, 1.37, 2, 2.7, 5, 30.5):
        assert student_t(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-8)
    with pytest.raises(ValueError, match="two seeds"):
        student_t(0)


def test_the_interval_is_welchs():
    stats = pytest.importorskip("scipy.stats")
    ours, base = (82.0, 82.6, 82.1), (81.0, 81.8, 80.9, 81.3)
    found = {
        one.cell.name: one for one in evidence(TABLE, measured("cp.cora", *ours) + measured("baseline.cora", *base))
    }
    expected = stats.ttest_ind(ours, base, equal_var=False).confidence_interval(0.95)
    assert found["cp.cora"].interval == pytest.approx((expected.low, expected.high), rel=1e-8)
    assert found["cp.cora"].published_gain == pytest.approx(0.7)
    assert found["cp.cora"].error == pytest.approx(stats.sem(ours))
    assert found["baseline.cora"].base is None
    assert found["baseline.cora"].interval is None


@pytest.mark.parametrize(
    ("interval", "published", "verdict"),
    [
        ((0.5, 1.5), 0.7, "reproduced"),
        ((0.8, 1.5), 0.7, "reproduced in direction"),
        ((0.1, 0.5), 0.7, "reproduced in direction"),
        ((-0.2, 0.5), 0.7, "not reproduced"),
        ((-2.0, -0.5), 0.7, "not reproduced"),
        ((-0.2, 0.9), 0.7, "undecided"),
        ((-1.5, -0.5), -0.7, "reproduced"),  # a fall of the error
        ((-1.5, -0.9), -0.7, "reproduced in direction"),
        ((0.5, 1.5), 0.0, "not reproduced"),
        (None, 0.7, "not measured"),
        ((0.5, 1.5), None, None),
    ],
)
def test_verdicts(interval, published, verdict):
    assert Evidence(CELLS["cp.cora"], (82.0, 82.5), "baseline.cora", 1.0, interval, published).verdict == verdict


def test_only_whole_runs_of_the_recipe_count():
    runs = measured("cp.cora", 82.0, steps=20) + measured("cp.cora", 83.0, changed={"optim.lr": 1.0})
    assert evidence(TABLE, runs) == []
    assert "cp.cora" in not_run(TABLE, runs)
    assert "cp.cora" not in not_run(TABLE, measured("cp.cora", 82.0))


def test_a_baseline_is_reproduced_where_one_more_seed_may_give_it():
    cell = CELLS["baseline.cora"]  # 81.3
    assert Evidence(cell, (81.0, 81.2, 81.4), None, None, None, None).expected
    assert not Evidence(cell, (85.0, 85.1, 85.2), None, None, None, None).expected
    assert Evidence(cell, (81.3,), None, None, None, None).expected is None


def test_baselines_are_cells():
    for name in ("paper.table1", "open.lfw", "open.omniglot", "open.omniglot_few_shot", "thesis.tableE.6"):
        table = tables()[name]
        assert sum(baseline(table, cell) is not None for cell in table.cells) >= len(table.cells) // 2
    assert baseline(tables()["thesis.table7.4"], tables()["thesis.table7.4"].cells[0]) is None
