"""A time that trainings have: who rests so that others end, and what the time stopped ends as if it had not been."""

import time

import pytest
from test_train_at_once import same
from tiny import tiny

from hypersphere.cli import main
from hypersphere.train import Job, run, run_at_once, with_values
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


def ended_in_time(totals, speed, seconds, minded=True, at_once=None, losses=()):
    """How many of these end before the deadline. ``losses``: when the device stands still, and for how long."""
    device, pauses = Shared(speed), list(losses)
    deadline = Deadline(seconds, at_once or len(totals), device.now)
    waiting = [Fake(total) for total in totals]
    working, rested, ended = [], [], 0
    at_once = at_once or len(totals)
    while not deadline.over and (working or waiting):
        resting = deadline.resting(working, lambda: bool(waiting)) if minded else set()
        rested.append(len(resting))
        while waiting and len(working) - len(resting) < at_once and (not resting or deadline.spare):
            working.append(waiting.pop(0))
        active = [one for one in working if one not in resting]
        device.work(0.1, active)
        if pauses and device.time >= pauses[0][0]:
            device.time += pauses.pop(0)[1]  # an evaluation, or the beginning of another
        for one in [one for one in active if one.done >= one.total]:
            working.remove(one)
            ended += 1
    return ended, max(rested)


def test_as_many_end_as_can():
    totals = [1000] * 6  # 6,000 steps, of which the device makes 4,800
    assert ended_in_time(totals, 40, 120, minded=False)[0] == 0
    assert ended_in_time(totals, 40, 120)[0] == 4
    assert ended_in_time([100, 200, 5000, 500], 10, 100)[0] == 3
    assert ended_in_time([100, 200, 5000, 500], 10, 100, minded=False)[0] == 2


def test_short_ones_do_not_wait_for_those_that_cannot_end():
    assert ended_in_time([60000, 60000, 40, 40], 40, 100, minded=False, at_once=2)[0] == 0
    assert ended_in_time([60000, 60000, 40, 40], 40, 100, at_once=2)[0] == 2
    assert ended_in_time([60000, 40, 40], 40, 100, at_once=1)[0] == 2


def test_where_nobody_can_end_all_go_on():
    device = Shared(10)
    deadline, runners = Deadline(100, 3, device.now), [Fake(10_000), Fake(20_000)]
    for _ in range(90):
        device.work(1, runners)
        assert not deadline.resting(runners)
    assert deadline.resting(runners, lambda: True) == set()  # not before the next look
    device.work(3, runners)
    assert deadline.resting(runners, lambda: True) == set(runners)


def test_one_that_nearly_can_end_has_the_device_to_itself():
    """A pause makes its pace look too slow: if the others were woken for that, nobody would end."""
    device = Shared(10)
    deadline, runners = Deadline(100, 3, device.now), [Fake(900), Fake(10_000), Fake(20_000)]
    alone = 0
    while not deadline.over:
        resting = deadline.resting(runners)
        device.work(1, [one for one in runners if one not in resting])
        alone += resting == set(runners[1:])
        device.time += 2 * (device.time == 50)
    assert runners[0].done >= 900
    assert alone > 80


def test_one_that_nearly_can_end_does_not_keep_shorter_ones_from_beginning():
    assert ended_in_time([1600, 300, 300], 10, 150, at_once=1)[0] == 2
    assert ended_in_time([1700, 1700, 200, 200], 10, 150, at_once=2)[0] == 2


def test_no_more_work_than_were_asked_for():
    device = Shared(10)
    deadline, runners = Deadline(100, 2, device.now), [Fake(10_000 * k) for k in range(1, 5)]
    for _ in range(20):
        device.work(3, runners)
        rests = deadline.resting(runners)
    assert rests == set(runners[2:])


def test_those_that_end_often_do_not_hide_one_that_cannot():
    totals = [60000, *[30] * 40]  # one ends every 1.5 s, and a look takes 2
    ended, rested = ended_in_time(totals, 40, 40, at_once=2)
    assert rested == 1
    assert ended > ended_in_time(totals, 40, 40, minded=False, at_once=2)[0]


def test_nobody_rests_where_all_end_in_time():
    assert ended_in_time([100, 900], 10, 1000) == (2, 0)
    pauses = [(20.0, 10.0), (45.0, 10.0)]  # evaluations of 10 s: all ends after 68 of 96 s
    assert ended_in_time([1200, 1200], 50, 96, losses=pauses) == (2, 0)


def test_paces_are_measured_before_anybody_rests():
    device = Shared(10)
    deadline = Deadline(100, 3, device.now)
    fast, slow, unbegun = Fake(100), Fake(9000), Fake(100, begun=False)
    everyone = [fast, slow, unbegun]
    assert not deadline.resting(everyone)
    for _ in range(2):  # the first look begins to count, one look is not enough
        device.work(3, [fast, slow])
        assert not deadline.resting(everyone)
    device.work(3, [fast, slow])
    assert deadline.resting(everyone) == {slow}
    assert deadline.resting([]) == set()


def test_one_that_rests_goes_on_when_there_is_time():
    device = Shared(10)
    deadline, first, second = Deadline(120, 3, device.now), Fake(500), Fake(800)
    for _ in range(4):
        device.work(3, [first, second])
        rests = deadline.resting([first, second])
    assert rests == {second}
    first.total = 200  # as if it had ended early
    device.work(3, [first])
    assert deadline.resting([first, second]) == set()


def test_what_the_time_stopped_ends_as_if_it_had_not(tmp_path, monkeypatch):
    monkeypatch.setattr("hypersphere.train.training.TURN", 1)
    for name in ("a", "b"):
        run(tiny(tmp_path / "alone", name, 6))
    jobs = [Job(tiny(tmp_path / "shared", name, 6), 0) for name in ("a", "b")]

    class Two(Deadline):
        """The first rests when it is asked for the second time; the time is over when it is asked for the fourth."""

        asked = 0
        spare = property(lambda self: False, lambda self, value: None)

        @property
        def over(self):
            self.asked += 1
            return self.asked >= 4

        def resting(self, working, more):
            assert more()
            return set(working[:1]) if self.asked >= 2 else set()

    monkeypatch.setattr(module, "Deadline", Two)
    outcomes = run_at_once([*jobs, Job(tiny(tmp_path / "shared", "never", 6), 0)], 2, within=60)
    assert [one.stopped for one in outcomes] == [True] * 3
    assert [one.error is None for one in outcomes] == [False, False, True]
    assert not (tmp_path / "shared" / "never").exists()
    monkeypatch.undo()
    assert all(one.result for one in run_at_once(jobs, 2, within=600))
    for name in ("a", "b"):
        same(tmp_path / "alone" / name, tmp_path / "shared" / name)


def test_rest_is_no_training_time_and_is_shown(tmp_path, monkeypatch):
    monkeypatch.setattr("hypersphere.train.training.TURN", 1)
    configs = [tiny(tmp_path, "first", 8), tiny(tmp_path, "second", 6)]
    shown = []

    class FirstRests(Deadline):
        def resting(self, working, more):
            if len(working) < 2:
                return set()
            (row,) = (work._row for work in working if work.job.name == "first seed 0")
            if row.rests:
                shown.append(row._board.text())
                time.sleep(0.2)
            return {work for work in working if work.job.name == "first seed 0" and work.done}

    monkeypatch.setattr(module, "Deadline", FirstRests)
    outcomes = run_at_once([Job(config, 0) for config in configs], 2, within=600)
    assert all(one.result for one in outcomes)
    assert outcomes[0].job.name == "second seed 0"
    assert "1 at work, 1 at rest of 2 trainings" in shown[0]
    assert outcomes[1].result["seconds"] < 0.2 * len(shown)


def test_a_job_may_begin_beside_one_that_rests(tmp_path, monkeypatch):
    monkeypatch.setattr("hypersphere.train.training.TURN", 1)

    class FirstRests(Deadline):
        def resting(self, working, more):
            return {work for work in working if work.job.name == "first seed 0" and work.done and len(outcomes) < 2}

    outcomes = []
    monkeypatch.setattr(module, "Deadline", FirstRests)
    jobs = [Job(tiny(tmp_path, name, 3), 0) for name in ("first", "second", "third")]
    run_at_once(jobs, 1, outcomes.append, within=600)
    assert [one.job.config.recipe for one in outcomes] == ["second", "third", "first"]
    assert all(one.result for one in outcomes)


def test_the_time_ends_before_a_last_evaluation_that_may_take_long(tmp_path, monkeypatch):
    config = with_values(tiny(tmp_path, "long", 3), {"evaluation.also": ("hardness",)})

    class AtTheEnd(Deadline):
        @property
        def over(self):
            return any(work.done == 3 for work in schedule[0]._working)

    schedule, init = [], module._Schedule.__init__
    with monkeypatch.context() as patch:
        patch.setattr("hypersphere.train.training.TURN", 1)
        patch.setattr(module, "Deadline", AtTheEnd)
        patch.setattr(module._Schedule, "__init__", lambda self, *a: schedule.append(self) or init(self, *a))
        patch.setattr("hypersphere.train.training.evaluate_each", lambda _: pytest.fail("it was evaluated"))
        (outcome,) = run_at_once([Job(config, 0)], 1, within=60)
    assert outcome.stopped
    assert "stopped at step 3" in str(outcome.error)
    (outcome,) = run_at_once([Job(config, 0)], 1, within=60)
    assert outcome.result["also"]


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
