"""What our numbers say about the published ones: intervals against a reference, verdicts by their rule."""

import pytest

from hypersphere.recipes import find, results, tables
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
        ((-1.5, -0.5), 0.0, "not reproduced"),
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


def test_numbers_of_the_start_need_no_training():
    """The energies of Table 7.2 are those before the first step; the errors beside them need all steps."""
    table = tables()["thesis.table7.2"]
    runs = []
    for cell, steps, values in (
        ("mean0", 1, (3.511, 3.512)),
        ("mean0", 42_500, (3.511,)),
        ("mean2e-2", 1, (3.55, 3.56)),
    ):
        runs += [
            measured(cell, 1.0, steps=steps)[0] | {"seed": s, "metrics": {"initial_energy": v}}
            for s, v in enumerate(values)
        ]
    found = {one.cell.name: one for one in evidence(table, runs)}
    assert list(found) == ["mean0", "energy0", "energy2e-2"]
    assert found["energy0"].values == (3.511, 3.512)  # a seed counts once
    assert found["energy2e-2"].base == "energy0"
    assert found["energy2e-2"].gain == pytest.approx(0.0435)
    assert not {"energy0", "energy2e-2"} & set(not_run(table, runs))
    cell = next(cell for cell in table.cells if cell.name == "energy0")
    assert results.ours(table, cell, runs) == {
        "final": 3.5115,
        "best": None,
        "diverged": 0,
        "seeds": 2,
        "steps": 42_500,
        "whole": True,
    }
    assert results.ours(table, cell, runs, steps=1)["whole"]


def test_a_baseline_is_compatible_where_one_more_seed_may_give_it():
    cell = CELLS["baseline.cora"]  # 81.3
    assert Evidence(cell, (81.0, 81.2, 81.4), None, None, None, None).expected
    assert not Evidence(cell, (85.0, 85.1, 85.2), None, None, None, None).expected
    assert Evidence(cell, (81.3,), None, None, None, None).expected is None
    low, high = Evidence(cell, (81.0, 81.2, 81.4), None, None, None, None).prediction
    assert (high - low) / 2 == pytest.approx(4.302653 * 0.2 * (4 / 3) ** 0.5)  # t of two degrees of freedom


def test_a_printed_mean_of_ten_runs_is_compared_with_the_mean_of_ten():
    table = tables()["thesis.table7.11"]
    assert {one.runs for name, one in tables().items() if name.startswith("thesis.table7.")} == {10}
    assert [tables()[name].runs for name in ("thesis.tableF.4", "thesis.tableE.6", "paper.table1")] == [10, 1, 1]
    runs = [one | {"seed": seed} for seed, v in enumerate((81.0, 81.2, 81.4)) for one in measured("baseline.cora", v)]
    (found,) = evidence(table, runs)
    low, high = found.prediction
    assert (high - low) / 2 == pytest.approx(4.302653 * 0.2 * (1 / 10 + 1 / 3) ** 0.5)
    energies = [one for one in tables()["thesis.table7.2"].cells if one.at_start]
    start = [measured(energies[0].training, 1.0, steps=1)[0] | {"metrics": {"initial_energy": 3.5}}]
    assert [one.runs for one in evidence(tables()["thesis.table7.2"], start)] == [1]


def test_a_seed_without_a_number_before_training_counts_nowhere():
    """Its training diverged, and energies were switched off."""
    table = tables()["thesis.table7.2"]
    cell = next(one for one in table.cells if one.at_start)
    good = measured(cell.training, 1.0, steps=1)[0] | {"metrics": {"initial_energy": 3.5}}
    lost = {"cell": cell.training, "seed": 1, "steps": 1, "diverged": 1, "metrics": {}}
    for found in ([good], [good, lost]):
        (one,) = evidence(table, found)
        mine = results.ours(table, cell, found)
        assert mine is not None
        assert (mine["final"], mine["seeds"], mine["diverged"]) == (one.mean, 1, one.diverged) == (3.5, 1, 0)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("paper.table1.cosine.ga-softmax", "cosine.softmax"),
        ("paper.table1.cosine.softmax", "original.softmax"),
        ("paper.table1.original.softmax", None),
        ("paper.table2.sigmoid0.3.cnn18", "original.cnn18"),
        ("paper.table4.s-g.cifar100", "resnet32.cifar100"),
        ("thesis.table2.2.m4", "softmax"),
        ("thesis.table2.3.cifar10+.m2", "cifar10+.softmax"),
        ("thesis.table4.3.tanh.cosine.no-relu", "baseline.no-relu"),
        ("thesis.table4.7.ball.fgsm.bim", "baseline.fgsm.bim"),
        ("thesis.table5.1.half-a-mhe.s0.cifar100", "baseline.cifar100"),
        ("thesis.table5.4.mhe.output", "baseline"),
        ("thesis.table7.4.cp.cnn6", "baseline.cnn6"),
        ("thesis.table7.4.baseline.cnn6", None),
        ("thesis.table7.6.cp.hs-mhe", "cp.original"),
        ("thesis.table7.2.energy1e-2", "energy0"),
        ("thesis.table7.10.baseline.opt", "baseline.plain"),
        ("thesis.table7.10.baseline++.opt", "baseline++.plain"),
        ("thesis.table7.10.baseline++.plain", None),
        ("thesis.table5.8.sphereface+.m2.rank1", "sphereface.m2.rank1"),
        ("thesis.table5.8.sphereface.m2.rank1", None),
        ("thesis.table5.10.sphereface+.lfw", "softmax.lfw"),
        ("thesis.sectionD.6.am-softmax+mhe", "am-softmax"),
        ("thesis.tableA.1.G.fisher", "A.fisher"),
        ("thesis.tableA.2.sphereface4.tar", "softmax64.tar"),
        ("thesis.tableE.4.every1", "every-never"),
        ("thesis.sectionE.8.learned", "shared"),
        ("thesis.sectionE.8.independent", "shared"),
        ("thesis.tableE.6.rp-comhe.pubmed", "baseline.pubmed"),
        ("open.omniglot_few_shot.baseline++.mhe.1shot", "baseline.plain.1shot"),
    ],
)
def test_the_baseline_of_a_cell(name, base):
    table, index = find(name)
    assert baseline(table, table.cells[index]) == base


def test_times_of_another_device_get_no_verdict():
    table = tables()["thesis.tableE.5"]
    runs = [
        one
        for cell, values in (("baseline", (0.2, 0.21)), ("rp-comhe", (0.3, 0.31)))
        for one in measured(cell, 30.0, 31.0, steps=1000)
        if one.update(metrics={"seconds_per_100_steps": values[one["seed"]]}) is None
    ]
    base, projected = evidence(table, runs)
    assert (base.values, base.expected, base.verdict) == ((0.2, 0.21), None, None)
    assert (projected.gain, projected.base, projected.verdict) == (pytest.approx(0.1), "baseline", None)


def lost(cell, *seeds, step=4):
    return [{"cell": cell, "seed": seed, "steps": 200, "diverged": step, "metrics": {}} for seed in seeds]


def test_where_a_seed_diverged_there_is_no_mean_and_no_gain():
    base = measured("baseline.cora", 81.0, 81.8, 80.9)
    some = measured("cp.cora", 82.0, 82.6) + lost("cp.cora", 2)
    found = {one.cell.name: one for one in evidence(TABLE, base + some)}
    one = found["cp.cora"]
    assert (one.values, one.diverged, one.seeds) == ((82.0, 82.6), 1, 3)
    assert (one.mean, one.error, one.prediction, one.gain, one.interval) == (None,) * 5
    assert one.verdict == "not reproduced"
    assert found["baseline.cora"].mean == pytest.approx(81.2333, abs=1e-3)
    assert "cp.cora" not in not_run(TABLE, base + some)
    (alone,) = evidence(TABLE, lost("cp.cora", 0, 1))
    assert (alone.values, alone.seeds, alone.verdict) == ((), 2, "not reproduced")


def test_over_a_baseline_that_diverged_there_is_no_gain():
    gained = measured("cp.cora", 82.0, 82.6)
    found = {one.cell.name: one for one in evidence(TABLE, gained + lost("baseline.cora", 0, 1))}
    assert found["cp.cora"].mean == pytest.approx(82.3)
    assert (found["cp.cora"].gain, found["cp.cora"].verdict) == (None, "not measured")
    assert (found["baseline.cora"].verdict, found["baseline.cora"].expected) == (None, False)


def test_what_is_known_before_the_first_step_outlives_a_divergence():
    table = tables()["thesis.table7.2"]
    cells = {cell.name: cell for cell in table.cells}
    one = {**lost("mean0", 0)[0], "steps": cells["mean0"].make().schedule.steps, "metrics": {"initial_energy": 3.5}}
    found = {each.cell.name: each for each in evidence(table, [one])}
    assert (found["energy0"].values, found["energy0"].diverged) == ((3.5,), 0)
    assert (found["mean0"].values, found["mean0"].diverged) == ((), 1)
    assert results.ours(table, cells["mean0"], [one])["final"] is None
    assert results.ours(table, cells["energy0"], [one])["final"] == 3.5
