"""torch.compile takes every head whole: no graph break, the same numbers, the step still counted."""

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


@pytest.mark.parametrize(
    ("case", "backend"),
    [
        *((case, "aot_eager") for case in ("softmax_bias", "l_annealed", "r_v2", "sphereface2")),
        *((case, "eager") for case in ("w_learnable_k", "s_sigmoid", "ga_square", "a_softmax", "am_softmax")),
        *((case, "eager") for case in ("arcface", "r_v0", "r_v1", "plus")),
    ],
)
def test_whole_graph(case, backend):
    torch._dynamo.reset()
    head = build(case, D, C, chunk=None)
    compiled = torch.compile(head, fullgraph=True, backend=backend)
    torch.testing.assert_close(*both(head, compiled, torch.randn(3, D), torch.tensor([0, 6, -100])))


@pytest.mark.parametrize("case", ["r_v2_annealed", "sphereface2"])
def test_whole_graph_in_blocks(case):
    torch._dynamo.reset()
    head = build(case, D, C, chunk=4)
    compiled = torch.compile(head, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(*both(head, compiled, torch.randn(3, D), torch.tensor([0, 6, 2])))


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


@pytest.mark.parametrize("case", ["a_softmax", "sphereface2"])
def test_logits_export(case):
    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = build(case, D, C)

        def forward(self, x):
            return self.head.logits(x)

    model, x = Classifier(), torch.randn(3, D)
    torch.testing.assert_close(torch.export.export(model, (x,)).module()(x), model(x))
