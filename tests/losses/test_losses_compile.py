"""torch.compile takes every head whole: no graph break, the same numbers, the step still counted."""

import copy

import pytest
import torch
from loss_cases import build

import hypersphere as hs

D, C = 4, 7


def both(head, compiled, x, y):
    out = []
    for call in (head, compiled):
        if getattr(head, "annealing", None) is not None:
            head.annealing.step.zero_()
        features = x.clone().requires_grad_()
        loss = call(features, y)
        out.append((loss.detach(), *torch.autograd.grad(loss, [features, *head.parameters()])))
    return out


@pytest.mark.slow
def test_inductor_counts_the_steps():
    torch._dynamo.reset()
    head = hs.losses.LSoftmax(D, C, annealing=hs.losses.Annealing())
    compiled = torch.compile(head, fullgraph=True)
    x, y = torch.randn(3, D), torch.tensor([0, 6, 2])
    torch.testing.assert_close(*both(head, compiled, x, y), rtol=1e-5, atol=1e-6)
    head.annealing.step.zero_()
    losses = [compiled(x.requires_grad_(), y).item() for _ in range(3)]
    assert head.annealing.step.item() == 3
    assert losses[0] < losses[1] < losses[2]


@pytest.mark.parametrize("case", ["adaface", "curricularface"])
def test_running_state_moves_once_though_backward_computes_again(case):
    torch._dynamo.reset()
    head = build(case, D, C, momentum=0.5, chunk=None, dtype=torch.float64)
    twin = copy.deepcopy(head)
    compiled = torch.compile(head, fullgraph=True, backend="aot_eager_decomp_partition")
    for seed in range(3):
        x = 30 * torch.randn(6, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        y = torch.arange(6)
        results = []
        for call, module in ((compiled, head), (twin, twin)):
            features = x.clone().requires_grad_()
            loss = call(features, y)
            results.append((loss.detach(), *torch.autograd.grad(loss, [features, module.weight]), *module.buffers()))
        torch.testing.assert_close(*results, rtol=1e-9, atol=1e-9)


def test_schedule_with_numbers_that_are_symbols():
    torch._dynamo.reset()
    annealing = hs.losses.Annealing()
    share = torch.compile(annealing.share, fullgraph=True, dynamic=True, backend="eager")
    torch.testing.assert_close(share(), annealing.share())
