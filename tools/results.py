"""Write docs/results.md and its forest plot from results/*.json: python tools/results.py

Every number of the page comes from a run: final accuracy of each seed, mean final and mean best, beside the published
number. :mod:`hypersphere.recipes.evidence` finds the verdicts by one rule for all. What was not run is listed.
"""

from __future__ import annotations

import json
import math
import sys
import textwrap
from pathlib import Path
from typing import Any

from hypersphere.recipes import Table, results, tables
from hypersphere.recipes.evidence import VERDICTS, Evidence, evidence, not_run

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import other_settings  # noqa: E402
import tune_open_sets  # noqa: E402
from forest import Row, svg  # noqa: E402

PAGE = ROOT / "docs" / "results.md"
FOREST = ROOT / "docs" / "images" / "forest.svg"

HEAD = """This page compares our runs with the published numbers. `python tools/results.py` makes it from
[`results/`](../results), which holds every run with its seed, settings, versions and device. `hypersphere reproduce
TABLE` runs the cells that are missing.

Accuracies are in percent. *final* is the number at the last step, which is the one to compare; *best* is the highest of
all evaluations of a run, averaged over the seeds. ± is the standard error of the mean over the seeds. Brackets hold the
95 % interval of the difference from our own baseline (Welch)."""

FINDINGS = {
    "paper.table1": """The plain CNN reproduces the published number. Sigmoid and cosine SphereConv, with weights that
        are projected every 100 steps, are almost a point above the published numbers and one point above the plain CNN.
        The paper does not say how it controlled the norm of the weights.

        A-Softmax (m = 4, λ ≥ 5) gains 0.46 [+0.02, +0.90] over the softmax on the plain CNN, published 1.20: in
        direction, a third of it. GA-Softmax on sigmoid SphereConvs gains -0.20 [-0.71, +0.31] over the softmax of the
        same network, published 1.30: not reproduced.

        The margins are printed with 1.0 to 1.3 points more than the softmax for every operator; the paper prints
        neither λ nor how weights are held. To find where these points could come from, nineteen settings were trained
        with one seed and a quarter of the steps.

        λ: the whole margin of m = 4 (λ = 0 from an eighth of the steps on) costs 5 to 9 points, with GA- and A-Softmax,
        for both networks, under every other setting that was tried. These networks give up 10 to 12 % of their training
        images, where all others know 99.8 % or more. The loss that is left is 1.0 to 1.5 times log 10 for each image
        that is wrong, which is about what an image costs whose feature has no length: ‖x‖ is free, so a margin that is
        too hard can be escaped. With λ ≥ 5 the margin gains 0.8 on the sigmoid network and 0.2 on the plain CNN, which
        one seed cannot distinguish from 0.

        Weights of SphereConvs: the constraint ‖WᵀW − I‖² of sec. 2.4 (1e-4) instead of the projection costs 0.2 with
        the softmax and 1.0 with the margin (λ ≥ 5); neither of the two costs 2.0 with the softmax.

        Head and feature scale: decay of the class vectors, decay of all parameters (which bounds ‖x‖ by the scales of
        BatchNorm) and features without BatchNorm do not bring back what the whole margin costs.

        The authors' public code (https://github.com/wy1iu/SphereNet) has no margin. It differs from the text by the
        constraint without projection, decay of the scales and shifts of BatchNorm, slow statistics of BatchNorm, a loss
        of log(p + 1e-4) with labels smoothed by 0.01, and twice the filters. Its logs end at 90.6 (plain) and 91.4
        (sigmoid). With these settings (`tools/released.py`) and our filters the softmax loses 0.2 on the sigmoid
        network and 0.9 on the plain CNN, and the whole margin costs 6 to 9 points as elsewhere.

        So none of these settings shows the published gain; other λ than 0 and 5 were not tried here. The plain CNN is
        better in 16,000 steps than in 64,000 (91.1 and 90.7): all of these networks learn their training images by
        heart.

        With a GPU of its own (seed 2) the plain network trains at 806 steps/s and the sigmoid network at 515. The other
        runs shared a GPU (the three of the cosine with each other), so their steps/s do not show the speed.""",
    "open.omniglot": """The 6,000 test pairs show characters that training never saw. With the published margins, scales
        and weights (6,000 steps, three seeds) center and triplet loss lead every margin, unlike in thesis Tables 2.9
        and 2.10, which are about faces.

        That order does not survive equal tuning (1,200 steps, nine settings of each loss, five seeds). All five losses
        that normalise features chose the scale 16 instead of 30 or 64. MagFace then leads, 0.3 [0.0, 0.6] above the
        triplet loss and 0.6 [0.3, 0.8] above the center loss. ArcFace is 0.4 [0.2, 0.6] above the center loss and level
        with the triplet loss, as are sub-center ArcFace and AdaFace; CosFace and A-Softmax are level with the center
        loss. So the set is not what kept margins back. With each of the three margins of these five losses, the scale
        16 is better on held-out classes than 64, and in 13 of 15 cases 30 lies between them. 16 is the smallest scale
        of the search: a smaller one may be better still. What the shorter training does by itself was not separated.

        Nothing collapses in the chosen settings: the networks know 89 to 95 % of their last training images, and the
        mean of the unit features has a length of 0.13 to 0.20. One setting of the search collapsed, A-Softmax with m =
        4 whose margin is whole after a quarter of the steps. The recipes' own settings of CosFace, ArcFace, AdaFace,
        MagFace and sub-center ArcFace were not run in 1,200 steps.""",
    "open.lfw": """Training has 9,525 faces of 4,038 people; the 1,000 test pairs show other people. A-Softmax and
        SphereFace+ are two to three points above the softmax. ArcFace is two points above it, which three seeds cannot
        distinguish from 0. CosFace and the contrastive loss are level with it. As on Omniglot, center and triplet loss
        are ahead, here by about a point. Half of the people have only one image, unlike in CASIA-WebFace. The standard
        error of one run is 0.6 to 0.9.

        In an earlier order of batches all people with one image came at the end of an epoch. With it the softmax with
        contrastive loss diverged to 60 % (marked "changed" in the JSON).

        The stored settings say `init: none` for softmax, A-Softmax, CosFace, ArcFace and SphereFace+, and `init: he`
        for center, triplet and contrastive loss, as the recipe does today. Both mean the same initial weights: at the
        commits in the JSON a SphereFace network drew its weights by He's rule, and today's recipe gives the same
        weights bit for bit (checked for all five with seed 0). The other settings that differ are newer than these
        runs; the older code had their values built in.""",
    "open.omniglot_few_shot": """These are means of three seeds. A cosine classifier (baseline++) gains ten points with
        one drawing and one point with five. Neither half-space MHE nor OPT makes a difference beyond the spread of the
        seeds on this set, where little is left to gain.""",
    "open.cifar10_gan": """These runs have one seed, a fifth of the steps, and a CIFAR-10 classifier instead of
        Inception. MHE on the discriminator neither helps nor harms spectral normalization here.""",
    "thesis.table7.11": """These are means of twenty seeds. The thesis prints neither the variance of the fixed neurons
        nor a rate of R. Both were chosen by the accuracy on validation nodes, with two seeds on Cora and three on
        Pubmed, among variances of 2/d, 1 and 9 and two rates: variance 1 for both methods, the rate 1e-4 for Cayley's
        map (cp), the common one for orthogonal descent (ogd). (For ogd that was done on Pubmed alone, whose test nodes
        were not evaluated yet.) The search is in the JSON, marked "changed".

        With these settings Cayley's map is level with the baseline on Cora and 0.6 below it on Pubmed; orthogonal
        descent is level with it on both. At the rate of the baseline, which F.3 keeps, three seeds of Cayley's map on
        Cora are four points below it.""",
    "thesis.table5.2": """The published gain is largest here: half-space MHE is printed with 12.6 points less error than
        the baseline. Our baseline of 16, 32 and 64 filters has 9 points less error than the printed one, with three
        seeds within 0.2. Half-space MHE lowers the mean energy from 0.517 to 0.505 and leaves the error where it was.
        Both networks know 78 % of their training images at the last step, so nothing suggests that ours is trained in
        another way than D.1 says. The printed baseline may be one whose start failed (see Table 5.1).""",
    "thesis.table5.1": """The error of the baseline is 1.4 above the published one. Half-space MHE does what it is
        for: the mean energy ends at 0.509 instead of 0.522. The error stays where it was, in all three seeds. Both
        networks learn their training images by heart (99.5 % at the last step), and both lose the same 0.1 of test
        loss while they do.

        Weight decay (1e-4), rates, steps and the weight of MHE are those of D.1. The authors' public code
        (https://github.com/wy1iu/MHE) has others: a decay of 5e-4 on all parameters, no BatchNorm behind the fully
        connected layer, a loss of log(p + 1e-4), and the weight 10 on the output layer. Its logs show a start that
        fails: the loss stands at 9.1, where its gradient vanishes, for 2,000 steps of the baseline and for 1,200 of
        half-space MHE, until weight decay has shrunk the weights. They end at 30.3 and 26.0 % error.
        With these settings (`tools/released.py`) our network fails in the same way within twenty steps, tried with
        random images; whole trainings with them have not been run.""",
    "thesis.table6.1": """The trainings of the baseline and of half-space MHE are those of Table 5.1; what they show is
        said there. Random projections were trained for half of the steps, and are not in the table.""",
    "thesis.table7.4": """The error of our baseline is 2.3 below the published one, and the published gains are not
        there. Half-space MHE lowers the mean energy from 0.532 to 0.512. Cayley's map keeps it at the 0.504 of the
        first step, as it must. Yet half-space MHE gains 0.3, which the seeds cannot distinguish from 0, and Cayley's
        map loses 0.3.

        With Cayley's map the network fits more slowly: at the end of the first rate it knows 45 % of the training
        images where the baseline knows 55 %, at the last step 78 % against 81 %. Its test loss is the lower one (1.298
        against 1.322). R has the rate and the weight decay of the baseline here, as F.3 says; a rate of its own, which
        helps on graphs (Table 7.11), has not been tried on these networks.

        The authors' public code (https://github.com/wy1iu/OPT) divides the rate at 30,000, 50,000 and 65,000 of 75,000
        steps where F.3 says "when the performance is saturated", and draws the skew matrix of Cayley's map from N(0,
        1), as F.3 does, which puts R near -I. Neither has been tried.

        Gram-Schmidt was begun with three seeds. Their loss rose again from 4,900 steps on, and after 9,100 that of one
        was not finite; these runs are not in the table.""",
    "thesis.tableE.6": """These are means of twenty seeds. On Cora no method gains: half-space MHE and random
        projections are 0.1 above the baseline, angle-preserving projections 0.1 below it. On Citeseer all are 0.1 to
        0.3 above it. On Pubmed half-space MHE and random projections are level with the baseline, angle-preserving
        projections 0.2 below it. All intervals for independent seeds include 0.

        A seed starts all methods from the same weights, so gains can also be compared seed by seed. For half-space MHE,
        random and angle-preserving projections they are, on Cora, +0.08 [-0.11, +0.27], +0.09 [-0.09, +0.26] and -0.14
        [-0.42, +0.14], on Citeseer +0.32 [+0.08, +0.56], +0.16 [-0.14, +0.46] and +0.15 [-0.21, +0.51], and on Pubmed
        +0.03 [-0.13, +0.18], +0.04 [-0.10, +0.19] and -0.24 [-0.44, -0.04]. Two intervals of the nine exclude 0, one
        on each side.

        Ten earlier seeds on Cora, with other draws of dropout, had given +0.34, +0.41 and -0.04. Compared seed by seed,
        the first two barely excluded 0; twice as many seeds did not confirm them. Earlier runs of CoMHE are marked
        "changed" in the JSON: their random projections were never redrawn, and their angle-preserving projections
        hardly moved.""",
    "thesis.table4.7": """The present recipe has not been run yet. The JSON holds runs that are marked "changed": images
        were not cropped, there was no orthogonality penalty, attacks used the log-odds alone, and training took 20,000
        of the 64,000 steps with one seed.

        In these runs naturally trained SphereConv, BallConv and TanhConv withstand FGSM four times as often as the
        plain CNN (19 against 5 %). The runs do not show the published level of robustness (44 to 53 %), the gain in
        clean accuracy, any accuracy under BIM (published: about 9 %, near chance), or the ranking after FGSM training.

        There are two possible causes, neither of them tested: the fewer steps, and the attack itself. Published
        accuracies of 79 to 86 % under FGSM after FGSM training, beside 8 to 35 % under BIM, suggest label leaking. Our
        attack maximises the log-odds, whose gradient does not vanish where the network is confident.""",
}


def page() -> str:
    """The whole page."""
    parts = [f"# Results\n\n{_paragraphs(HEAD)}\n", _overview()]
    parts += [_section(table, measurements) for table, measurements in _measured()]
    return "\n".join([*parts, _missing()])


def forest() -> str:
    """The picture of every gain that has an interval."""
    panels = []
    for table, measurements in _measured():
        if table.metric in ("accuracy", "error"):
            rows = [
                Row(one.cell.name, one.gain, *one.interval, one.published_gain)
                for one in _own(table, measurements)
                if one.gain is not None and one.interval is not None
            ]
            panels += [(f"{table.name} ({table.metric} in %)", rows)] if rows else []
    return svg(panels)


def _measured() -> list[tuple[Table, list[dict[str, Any]]]]:
    paths = sorted((ROOT / "results").glob("*.json"))
    return [(tables()[path.stem], json.loads(path.read_text())["measurements"]) for path in paths]


def _own(table: Table, measurements: list[dict[str, Any]]) -> list[Evidence]:
    """What the trainings under a table's own name say: one training can stand in several tables."""
    own = {m["cell"] for m in measurements if m["recipe"] == f"{table.name}.{m['cell']}"}
    return [one for one in evidence(table, measurements) if one.cell.training in own]


def _overview() -> str:
    """How many published numbers were run, what became of the published gains, and the picture."""
    every = _documents()
    printed = [cell for table in every for cell in table.cells if cell.published is not None]
    found = [(table, one) for table, measurements in _measured() for one in evidence(table, measurements)]
    compared = [one for _, one in found if one.cell.published is not None]
    text = f"""Of {len(printed)} published numbers in {len(every)} tables and figures, {len(compared)} were run as the
        recipes say, to the last step. A training that stands in several tables is shown once here. The end of the page
        lists the tables that were not run."""
    lines = ["## At a glance", "", _wrapped(text), "", "![Gains over the baseline](images/forest.svg)", ""]
    shown = [(table, one) for table, measurements in _measured() for one in _own(table, measurements)]
    for table, one in shown:
        if one.verdict is not None:
            lines.append(_wrapped(f"- **{table.name} {one.cell.name}: {one.verdict}.** {_sentence(one)}", "  "))
        elif one.base is None and one.expected is not None:
            word, (low, high) = _verdict(one), one.prediction or (math.nan, math.nan)
            text = f"""{one.mean:.2f}, published {one.cell.published:.2f}; one more run of ours may give {low:.2f} to
                {high:.2f} ({len(one.values)} seeds)."""
            lines.append(_wrapped(f"- **{table.name} {one.cell.name} (a baseline): {word}.** {text}", "  "))
    lines += ["", "One rule gives the verdicts:", ""]
    lines += [_wrapped(f"- *{name}*: {meaning}.", "  ") for name, meaning in VERDICTS.items()]
    return "\n".join([*lines, ""])


def _sentence(one: Evidence) -> str:
    over = f"our {one.base}, published {one.published_gain:+.2f}"
    seeds = f"{len(one.values)} seed{'s' * (len(one.values) > 1)}"
    if one.interval is None:
        return f"{'Our gain' if one.gain is None else f'{one.gain:+.2f}'} over {over} ({seeds})."
    return f"{one.gain:+.2f} [{one.interval[0]:+.2f}, {one.interval[1]:+.2f}] over {over} ({seeds})."


def _section(table: Table, measurements: list[dict[str, Any]]) -> str:
    lines = [f"## {table.name}", "", f"{table.title.rstrip('.')}.", ""]
    known = {one.cell.name: one for one in evidence(table, measurements)}
    for steps in sorted({m["steps"] for m in measurements}, reverse=True):
        chosen = [m for m in measurements if m["steps"] == steps and not m.get("changed")]
        if not chosen:
            continue
        devices = sorted({f"{m['environment']['device']}, torch {m['environment']['torch']}" for m in chosen})
        lines += [f"{steps:,} steps on {'; '.join(devices)}; {table.metric}.", ""]
        lines += [
            "| cell | published | each seed | final | difference | best | over our baseline | verdict |",
            "| --- | ---: | --- | ---: | ---: | ---: | --- | --- |",
        ]
        for cell in table.cells:
            mine = results.ours(table, cell, chosen, steps)
            if mine is None:
                continue
            seeds = [m for m in chosen if m["cell"] == cell.training]
            values = [m.get("metrics", {}).get(cell.measure, m["final_accuracy"]) for m in seeds]
            shown = ", ".join(f"{table.ours(value, cell.measure):.2f}" for value in values[:_SHOWN])
            shown += f", ... ({len(values)} seeds)" if len(values) > _SHOWN else ""
            published = "" if cell.published is None else f"{cell.published:.2f}"
            best = "" if mine["best"] is None else f"{mine['best']:.2f}"
            one = known.get(cell.name) if mine["whole"] else None
            mean = mine["final"] if one is None else one.mean  # the same rounding as in the overview
            gap = f"{mean - cell.published:+.2f}" if cell.published is not None and mine["whole"] else ""
            spread = tune_open_sets.mean([table.ours(value, cell.measure) for value in values]).partition("±")[2]
            final = f"**{mean:.2f}**" + (f" ±{spread}" if spread else "")
            lines.append(
                f"| {cell.name} | {published} | {shown} | {final} | {gap} | {best} | {_gain(one)} | {_verdict(one)} |"
            )
        lines.append("")
        twins = sorted({(m["cell"], m["recipe"]) for m in chosen if m["recipe"] != f"{table.name}.{m['cell']}"})
        if twins:
            text = ", ".join(f"{cell} is {recipe}" for cell, recipe in twins)
            lines += [_wrapped(f"These settings were trained once, under the name of another table: {text}."), ""]
    lines += [*_tuned(table, measurements), *_variants(table, measurements)]
    if table.name in FINDINGS:
        lines += [_paragraphs(FINDINGS[table.name]), ""]
    missing = not_run(table, measurements)
    if missing:
        lines += [_wrapped(f"Not run: {len(missing)} of {len(table.cells)} cells ({', '.join(missing)})."), ""]
    return "\n".join(lines)


def _tuned(table: Table, measurements: list[dict[str, Any]]) -> list[str]:
    """What every loss reaches with the setting that was best on held-out training classes, where that was searched."""
    lines: list[str] = []
    searched = {m["steps"] for m in measurements if m.get("changed", {}).get("data.validate")}
    for steps in sorted(searched) if table.name in tune_open_sets.TABLES else ():
        rest = tune_open_sets.besides(table.name, ROOT / "results", steps)
        given = f", all with `{rest}`" if rest else ""
        text = f"""Every loss tuned by the same budget, {steps:,} steps a run{given}: settings (nine of each loss, one
            seed) were chosen by the accuracy on every fifth training class, which those runs did without (*held-out*),
            and then trained on all training classes and tested (*test*). *recipe's* is the test of the recipe's own
            setting in as many steps. *train* is the accuracy on the last training batches, *mean feature* the length
            of the mean unit feature of the test images, 1 if all point in one direction, and *warned* how many of the
            settings collapsed."""
        lines += [_wrapped(text), "", *tune_open_sets.table(table.name, ROOT / "results", steps), ""]
    return lines


def _variants(table: Table, measurements: list[dict[str, Any]]) -> list[str]:
    """What cells reach with other settings, where a table's gain was looked for in them."""
    text = """Other settings than the recipe's, and the recipe's own in as many steps beside them. *gain* is over the
        same network without margin or energy under the same other settings."""
    rows = other_settings.rows(table, measurements)
    return [_wrapped(text), "", *rows, ""] if rows else []


_SHOWN = 5


def _gain(one: Evidence | None) -> str:
    if one is None or one.gain is None:
        return ""
    return f"{one.gain:+.2f}" + ("" if one.interval is None else f" [{one.interval[0]:+.2f}, {one.interval[1]:+.2f}]")


def _verdict(one: Evidence | None) -> str:
    """The verdict on a gain, or on a baseline's own number."""
    if one is None or one.verdict is not None:
        return "" if one is None else str(one.verdict)
    if one.base is not None or one.expected is None:
        return ""
    return "compatible" if one.expected else "not compatible"


_NOT_HERE = {
    "casia": "CASIA-WebFace",
    "imagenet": "ImageNet",
    "imdb_face": "IMDb-Face",
    "miniimagenet": "mini-ImageNet",
    "ms_celeb": "MS-Celeb",
}


def _missing() -> str:
    """The tables without any number: those whose data can be had, and those whose data we do not have."""
    run = {table.name for table, _ in _measured()}
    open_, closed = [], []
    for table in _documents():
        if table.name in run:
            continue
        needs = sorted({_NOT_HERE.get(cell.make().data.name, "") for cell in table.cells} - {""})
        needs += ["Inception-v3"] if table.metric == "inception score" else []
        cells = f"{len(table.cells)} cell{'s' * (len(table.cells) > 1)}"
        where = f" ({', '.join(needs)})" if needs else ""
        (closed if needs else open_).append(f"- `{table.name}`{where}: {cells}. {table.title.rstrip('.')}.")
    head = "We have no number for any cell of these tables and figures. Their data sets can be had:"
    return "\n".join(["## Not run", "", head, "", *open_, "", "These need data that we do not have:", "", *closed, ""])


def _documents() -> list[Table]:
    """The tables and figures of the documents, without the recipes for one's own data."""
    return [table for table in tables().values() if table.name.startswith(("paper.", "thesis."))]


def _paragraphs(text: str) -> str:
    return "\n\n".join(_wrapped(part) for part in text.split("\n\n"))


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(" ".join(text.split()), 120, break_on_hyphens=False, subsequent_indent=indent)


if __name__ == "__main__":
    for path, content in ((PAGE, page()), (FOREST, forest())):
        path.write_text(content)
        print(path.relative_to(ROOT))
