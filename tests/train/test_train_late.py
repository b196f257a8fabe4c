"""A step whose matrices failed is found out later, without waiting, and done again: as if it had never failed."""

from types import SimpleNamespace

import pytest
import torch
from tiny import tiny
from torch.optim import SGD, Adam

from hypersphere.config import RegularizerConfig
from hypersphere.orthogonal import Recorded
from hypersphere.train import OrthogonalConfig
from hypersphere.train import late as lateness
from hypersphere.train.build import make_parts, make_step
from hypersphere.train.distributed import team
from hypersphere.train.late import Matrices
from hypersphere.train.optimizer import Optimizers

FUSED = {
    "adam": lambda parameters: Adam(parameters, 1e-2, fused=True),
    "sgd": lambda parameters: SGD(parameters, 1e-2, momentum=0.9, fused=True),
}


class Fake(Recorded):
    """Stands for the graph: fails at some replays, and the host learns of it ``delay`` replays later."""

    def __init__(self, fails: set[int], delay: int) -> None:
        super().__init__(None, [], torch.zeros(()), torch.zeros(()))
        self.fails, self.delay, self.replays, self.since, self.settled, self.asked = fails, delay, 0, None, 0, 0

    def replay(self) -> None:
        self.replays += 1
        if self.replays in self.fails:
            self.failed.fill_(1.0)  # and stays
            self.since = self.replays if self.since is None else self.since

    def found(self, wait: bool = False) -> bool:
        self.asked += wait
        return self.since is not None and (wait or self.replays >= self.since + self.delay)

    def settle(self) -> bool:
        found = self.found(wait=True)
        self.failed.zero_()
        self.since, self.settled = None, self.settled + found
        return found


def trained(tmp_path, name, fails, delay, late=True):
    """A training of 8 steps over two epochs whose matrices fail at some replays: state, sums and the fake."""
    config = tiny(tmp_path, "late", 60, orthogonal=OrthogonalConfig("cayley"), regularizer=RegularizerConfig("mhe"))
    parts = make_parts(config, 0, team("cpu"))
    parts.optimizers = Optimizers([FUSED[name](parts.objective.parameters())], [1.0] * 60, team("cpu").device)
    step, fake = make_step(parts, 42), Fake(fails, delay)  # an epoch has 45 batches
    work, forward = step._work, step._forward_at
    step._cuda, step._maps, step._graph = True, Matrices(fake, late), SimpleNamespace(replay=work)

    def poisoned(position):
        """Matrices that are NaN make the loss NaN, and what the layers remember."""
        total, stats = forward(position)
        if fake.failed:
            for key, buffer in (*parts.objective.named_buffers(), *parts.penalty.named_buffers()):
                if not key.endswith("original"):  # the fixed neurons
                    buffer.data.fill_(torch.nan if buffer.is_floating_point() else 99)
            return total * torch.nan, stats * torch.nan
        return total, stats

    step._forward_at = poisoned
    for _ in range(8):
        step()
    line = step.read()
    assert step.step == int(step._counter) == 50
    state = {**parts.objective.state_dict(), **parts.penalty.state_dict()}
    moments = parts.optimizers.state_dict()[0]
    return {name: value.clone() for name, value in state.items()}, moments, line, fake


@pytest.mark.parametrize(("name", "fails", "delay"), [("adam", {2, 5, 8}, 1), ("adam", {3}, 9), ("sgd", {2}, 3)])
def test_what_was_not_done_is_done_again(name, fails, delay, tmp_path, monkeypatch):
    monkeypatch.setattr(lateness, "_WATCHED", 2)
    state, moments, line, _ = trained(tmp_path, name, set(), 0)
    again, moments_again, line_again, fake = trained(tmp_path, name, fails, delay)
    assert fake.settled >= 1
    torch.testing.assert_close(again, state, rtol=0, atol=0)
    torch.testing.assert_close(moments_again, moments, rtol=0, atol=0)
    assert line_again == line


def test_the_host_waits_only_after_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(lateness, "_WATCHED", 3)
    read = 2  # read() completes the steps, and looks for losses that are not finite
    assert trained(tmp_path, "adam", set(), 0)[3].asked == read
    assert trained(tmp_path, "adam", {3}, 1)[3].asked == read + 1 + 3
    assert trained(tmp_path, "adam", set(), 0, late=False)[3].asked == 8
