"""A time that trainings have: who rests so that others end, and what the time stopped ends as if it had not been."""

import pytest
from test_train_at_once import same
from tiny import tiny

from hypersphere.cli import main
from hypersphere.train import Job, run, run_at_once
from hypersphere.train import at_once as module
from hypersphere.train.deadline import Deadline


class Shared:
    """A device of so many steps a second, which those at work share, and its clock."""

    def __init__(self, speed):
        self.speed, self.time = speed, 0.0

    def now(self):
        return self.time

    def work(self, seconds, runners):
        self.time += seconds
        for runner in runners:
            runner.exact += self.speed * seconds / len(runners)


class Fake:
    def __init__(self, total, begun=True):
        self.total, self.exact, self.begun = total, 0.0, begun

    @property
    def done(self):
        return int(self.exact) if self.begun else None


def ended_in_time(totals, speed, seconds, minded=True):
    """How many of these end before the deadline, one rule for resting and waking: that of the schedule."""
    device = Shared(speed)
    deadline = Deadline(seconds, device.now)
    working, resting, ended = [Fake(total) for total in totals], [], 0
    while not deadline.over and working:
        active = [one for one in working if one not in resting]
        if minded and (late := deadline.too_late(active)) is not None:
            resting.append(late)
            active.remove(late)
        device.work(0.1, active)
        for one in [one for one in active if one.done >= one.total]:
            working.remove(one)
            ended += 1
            if resting:
                resting.pop()
            deadline.changed()
    return ended


def test_as_many_end_as_can():
    totals = [1000] * 6  # 6,000 steps, of which the device makes 4,800
    assert ended_in_time(totals, 40, 120, minded=False) == 0
    assert ended_in_time(totals, 40, 120) == 4
    assert ended_in_time([100, 200, 5000, 500], 10, 100) == 3
    assert ended_in_time([100, 200, 5000, 500], 10, 100, minded=False) == 2


def test_nobody_rests_where_all_end_in_time():
    device = Shared(10)
    deadline, runners = Deadline(1000, device.now), [Fake(100), Fake(900)]
    for _ in range(100):
        device.work(1, runners)
        assert deadline.too_late(runners) is None


def test_paces_are_measured_before_anybody_rests():
    device = Shared(10)
    deadline = Deadline(100, device.now)
    fast, slow, unbegun = Fake(100), Fake(9000), Fake(100, begun=False)
    assert deadline.too_late([fast, slow]) is None
    device.work(1, [fast, slow])
    assert deadline.too_late([fast, slow]) is None  # too short a look
    device.work(2, [fast, slow])
    assert deadline.too_late([fast, slow, unbegun]) is None
    assert deadline.too_late([fast, slow]) is slow
    device.work(3, [fast])
    assert deadline.too_late([fast]) is None
    assert deadline.too_late([]) is None


def test_what_the_time_stopped_ends_as_if_it_had_not(tmp_path, monkeypatch):
    monkeypatch.setattr("hypersphere.train.training.TURN", 1)
    for name in ("a", "b"):
        run(tiny(tmp_path / "alone", name, 6))
    jobs = [Job(tiny(tmp_path / "shared", name, 6), 0) for name in ("a", "b")]

    class Two(Deadline):
        """The first rests when it is asked for the second time; the time is over when it is asked for the fourth."""

        asked = 0

        @property
        def over(self):
            self.asked += 1
            return self.asked >= 4

        def too_late(self, runners):
            return runners[0] if self.asked == 2 else None

    monkeypatch.setattr(module, "Deadline", Two)
    outcomes = run_at_once([*jobs, Job(tiny(tmp_path / "shared", "never", 6), 0)], 2, within=60)
    assert [one.stopped for one in outcomes] == [True, True]
    assert not (tmp_path / "shared" / "never").exists()
    monkeypatch.undo()
    assert all(one.result for one in run_at_once(jobs, 2, within=600))
    for name in ("a", "b"):
        same(tmp_path / "alone" / name, tmp_path / "shared" / name)


def test_one_that_rests_goes_on_when_another_has_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("hypersphere.train.training.TURN", 1)
    configs = [tiny(tmp_path, "first", 4), tiny(tmp_path, "second", 2), tiny(tmp_path, "third", 2)]

    class FirstRests(Deadline):
        rested = False

        def too_late(self, runners):
            if self.rested or len(runners) < 2:
                return None
            self.rested = True
            return runners[0]

    monkeypatch.setattr(module, "Deadline", FirstRests)
    outcomes = run_at_once([Job(config, 0) for config in configs], 2, within=600)
    assert all(one.result for one in outcomes)
    assert outcomes[0].job.name == "second seed 0"


def test_reproduce_within_minutes(tmp_path, capsys):
    words = [
        "reproduce",
        "digits.table",
        "--results",
        str(tmp_path / "results"),
        "--run.folder",
        str(tmp_path / "runs"),
    ]
    assert main([*words, "--within", "0"]) == 2
    assert "--within" in capsys.readouterr().err
    with pytest.raises(ValueError, match="within"):
        run_at_once([], 1, within=-1.0)
    plan = tmp_path / "plan"
    plan.write_text("paper.table1 --cells original.softmax --within 3\n")
    assert main(["reproduce", "--plan", str(plan), "--within", "5"]) == 2
    assert "--within and --print belong on the command line" in capsys.readouterr().err
