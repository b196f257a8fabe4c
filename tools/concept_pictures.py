"""Make the pictures of docs/concepts: python tools/concept_pictures.py [--out docs/images]"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
from matplotlib.figure import Figure

import hypersphere as hs

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"


def angles() -> Figure:
    """Inner product and angle over a plane: lines of equal response."""
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    grid = torch.linspace(-2, 2, 201)
    x = torch.stack(torch.meshgrid(grid, grid, indexing="xy"), -1)
    w = torch.tensor([1.0, 0.6])
    cos = hs.functional.unit(x) @ hs.functional.unit(w)
    for place, (title, values) in enumerate({"inner product w·x": x @ w, "angular response cos θ": cos}.items(), 1):
        axes = figure.add_subplot(1, 2, place, aspect="equal")
        drawn = axes.contourf(grid, grid, values, levels=12, cmap="RdBu_r")
        axes.annotate("", w.tolist(), (0, 0), arrowprops={"arrowstyle": "->", "linewidth": 2})
        axes.text(1.05, 0.72, "w")
        axes.set_title(title)
        figure.colorbar(drawn, ax=axes, shrink=0.8)
    return figure


def margins() -> Figure:
    """Where class 1 wins, in the plane of the two angles."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    theta = torch.linspace(0, math.pi / 2, 300)
    one, two = torch.meshgrid(theta, theta, indexing="xy")
    rules = {
        "softmax: cos θ₁ > cos θ₂": one.cos(),
        "A-Softmax: ψ(θ₁) > cos θ₂, m = 2": hs.functional.psi(one.cos(), 2),
        "CosFace: cos θ₁ − 0.35 > cos θ₂": one.cos() - 0.35,
        "ArcFace: cos(θ₁ + 0.5) > cos θ₂": (one + 0.5).cos(),
    }
    for place, (title, target) in enumerate(rules.items(), 1):
        axes = figure.add_subplot(1, 4, place, aspect="equal")
        other = two.cos()
        own = {1: two.cos(), 2: hs.functional.psi(two.cos(), 2), 3: two.cos() - 0.35, 4: (two + 0.5).cos()}[place]
        axes.contourf(theta, theta, (target > other).float(), levels=[0.5, 1.5], colors=[BLUE], alpha=0.5)
        axes.contourf(theta, theta, (own > one.cos()).float(), levels=[0.5, 1.5], colors=[ORANGE], alpha=0.5)
        axes.set_title(title, fontsize=8)
        axes.set_xlabel("θ₁")
        axes.set_ylabel("θ₂" if place == 1 else "")
        axes.set_xticks([0, math.pi / 4, math.pi / 2], ["0", "45°", "90°"])
        axes.set_yticks([0, math.pi / 4, math.pi / 2], ["0", "45°", "90°"])
    return figure


def energy() -> Figure:
    """Eight directions in the plane before and after their energy is minimised."""
    torch.manual_seed(3)
    w = torch.randn(8, 2)
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    for place, (title, rows) in enumerate({"random": w, "least energy": hs.functional.refine(w, s=2.0)}.items(), 1):
        axes = figure.add_subplot(1, 2, place, aspect="equal")
        circle = torch.linspace(0, 2 * math.pi, 200)
        axes.plot(circle.cos(), circle.sin(), color=GREY, linewidth=0.8)
        for direction in hs.functional.unit(rows):
            axes.annotate(
                "", direction.tolist(), (0, 0), arrowprops={"arrowstyle": "->", "color": BLUE, "linewidth": 1.8}
            )
        axes.set_title(f"{title}: mean energy {hs.functional.energy(rows):.2f}")
        axes.set_xlim(-1.15, 1.15)
        axes.set_ylim(-1.15, 1.15)
        axes.set_axis_off()
    return figure


def orthogonal() -> Figure:
    """A free step changes angles between neurons; a rotation does not."""
    torch.manual_seed(1)
    w = hs.functional.unit(torch.tensor([[1.0, 0.1], [0.2, 1.0], [-0.8, 0.5]]))
    free = hs.functional.unit(w + 0.7 * torch.tensor([[-0.3, 0.9], [0.6, -0.4], [0.9, 0.6]]))
    turn = math.radians(35)
    rotation = torch.tensor([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    for place, (title, rows) in enumerate(
        {"at the start": w, "free training": free, "w = Rv": w @ rotation.T}.items(), 1
    ):
        axes = figure.add_subplot(1, 3, place, aspect="equal")
        for direction, colour in zip(rows, (BLUE, ORANGE, GREEN), strict=True):
            axes.annotate(
                "", direction.tolist(), (0, 0), arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 2}
            )
        axes.set_title(f"{title}\nmean energy {hs.functional.energy(rows):.2f}", fontsize=10)
        axes.set_xlim(-1.15, 1.15)
        axes.set_ylim(-0.6, 1.15)
        axes.set_axis_off()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[1] / "docs" / "images")
    folder = parser.parse_args().out
    for make in (angles, margins, energy, orthogonal):
        make().savefig(folder / f"concept_{make.__name__}.png", dpi=110)
        print(folder / f"concept_{make.__name__}.png")


if __name__ == "__main__":
    main()
