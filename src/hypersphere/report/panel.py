"""One run at a time: how it was trained, its sphere, energy, learned numbers, confusion, examples, provenance."""

from __future__ import annotations

from collections.abc import Sequence

from .charts import bars, histograms
from .confusion import worst_classes, worst_pairs
from .examples import Example, hardest, slowest
from .findings import Findings
from .markup import Html, definitions, details, element, join, number, table
from .overview import flat, shown
from .subject import Subject
from .verification import PairExample, hardest_pairs
from .words import in_words

__all__ = ["panel"]


def panel(index: int, subject: Subject, seen: Findings, pictures: int, only: bool) -> Html:
    """The sections of a run; charts are drawn by the page's script into the empty elements."""
    parts = [
        _section(index, "trained", "What was trained", _trained(subject)),
        *(_section(index, "missing", "Missing", element("p", text, class_="warning")) for text in seen.missing),
        *_sphere(index, seen),
        *_energy(index, subject, seen),
        *_learned(index, seen),
        *_confusion(index, seen),
        *_examples(index, seen, pictures),
        *_pairs(index, seen, pictures),
        _section(index, "source", "Command and versions", _source(subject)),
    ]
    return element("div", *parts, class_="panel", data_run=index, id=f"run-{index}", hidden=not only and index > 0)


def _section(index: int, name: str, title: str, *content: object) -> Html:
    return element("section", element("h2", title, id=f"{name}-{index}"), *content, aria_labelledby=f"{name}-{index}")


def _trained(subject: Subject) -> Html:
    settings = flat(subject)
    rows = [[element("code", name), shown(value)] for name, value in settings.items()]
    full = table(["setting", "value"], rows, "All settings, by the name that the command line knows")
    return join([definitions(in_words(subject.run.config)), details(f"All {len(settings)} settings", full)])


def _sphere(index: int, seen: Findings) -> list[Html]:
    if seen.found is None:
        return []
    title = "Features in the plane" if seen.found.features.shape[1] == 2 else "Features on the sphere"
    return [_section(index, "sphere", title, element("div", class_="sphere-view", data_run=index))]


def _energy(index: int, subject: Subject, seen: Findings) -> list[Html]:
    logged = any(key.startswith("energy") for seed in subject.seeds for record in seed.log for key in record)
    if not logged and not seen.energies:
        return []
    about = element(
        "p",
        "Hyperspherical energy of the neurons' directions (s = 2), divided by the number of pairs: lower means that "
        "the neurons of a layer are spread more evenly over their sphere.",
        class_="note",
    )
    chart = element("div", class_="energy-view", data_run=index) if logged else ""
    now = details("Every layer of the final network", bars(seen.energies, "energy")) if seen.energies else ""
    return [_section(index, "energy", "Energy", about, chart, now)]


def _learned(index: int, seen: Findings) -> list[Html]:
    parts: list[Html] = []
    if seen.k:
        text = (
            "The learned k of the sigmoid, one histogram a layer; a smaller k is a steeper g. The line marks the mean."
        )
        parts += [element("h3", "Curvature k"), element("p", text, class_="note"), histograms(seen.k, "k")]
    if seen.rho:
        text = (
            "The learned radius ρ of h. Patches longer than ρ (times their mean norm, where that is tracked) saturate."
        )
        parts += [element("h3", "Radius ρ"), element("p", text, class_="note"), histograms(seen.rho, "ρ")]
    return [_section(index, "learned", "Learned operators", *parts)] if parts else []


def _confusion(index: int, seen: Findings) -> list[Html]:
    if seen.found is None or seen.found.logits is None:
        return []
    pairs = [[true, other, f"{count} of {total}"] for true, other, count, total in worst_pairs(seen.found)]
    classes = [
        [name, f"{right} of {total}", number(100 * right / total)] for name, right, total in worst_classes(seen.found)
    ]
    return [
        _section(
            index,
            "confusion",
            "Confusion",
            element("div", class_="matrix-view", data_run=index),
            element(
                "div",
                table(["true class", "taken for", "how often"], pairs, "Most frequent mistakes")
                if pairs
                else element("p", "No test sample is classified wrongly.", class_="note"),
                table(["class", "right", "%"], classes, "Classes with the lowest accuracy", "numbers"),
                class_="pair",
            ),
        )
    ]


def _examples(index: int, seen: Findings, pictures: int) -> list[Html]:
    if not seen.has_angles or seen.found is None:
        return []
    parts = []
    for title, text, chosen in (
        (
            "Hardest",
            "Largest angular visual hardness: the angle to the own class vector over the sum of the angles to all.",
            hardest(seen.found, pictures),
        ),
        (
            "Slowest angle",
            "Largest angle to the own class vector that training has left. Features start at about a right angle to "
            "every class vector, so it is these that moved least.",
            slowest(seen.found, pictures),
        ),
    ):
        shown_as = _gallery(chosen) if seen.found.images is not None else _listing(chosen, title)
        parts += [element("h3", title), element("p", text, class_="note"), shown_as]
    return [_section(index, "examples", "Hard examples", *parts)]


def _gallery(chosen: Sequence[Example]) -> Html:
    figures = []
    for one in chosen:
        verdict = "predicted correctly" if one.right else f"predicted {one.predicted}"
        alt = f"Test sample {one.index}: {one.true}, {verdict}, {one.degrees:.0f}° from its class vector"
        caption = join(
            [
                element("b", one.true),
                element("span", "✓ correct", class_="right")
                if one.right
                else element("span", f"→ {one.predicted}", class_="wrong"),
                element("span", f"{one.degrees:.0f}°", title=f"hardness {one.hardness:.4f}"),
            ],
            " ",
        )
        figures.append(element("figure", element("img", src=one.picture, alt=alt), element("figcaption", caption)))
    return element("div", *figures, class_="gallery")


def _listing(chosen: Sequence[Example], title: str) -> Html:
    rows = [[one.index, one.true, one.predicted, f"{one.degrees:.1f}", f"{one.hardness:.4f}"] for one in chosen[:10]]
    return table(["test sample", "true", "predicted", "angle, °", "hardness"], rows, title, "numbers")


def _pairs(index: int, seen: Findings, pictures: int) -> list[Html]:
    if seen.verified is None or seen.found is None:
        return []
    result = seen.verified.result
    rows = [
        ["accuracy, %", f"{number(100 * result.accuracy)} ± {number(100 * result.std)}"],
        ["area under the ROC curve, %", number(100 * result.auc)],
        ["equal error rate, %", number(100 * result.eer)],
        *(
            [f"true accepts at {far:g} false accepts, %", number(100 * float(result.tar_at(far)))]
            for far in (0.1, 0.01, 0.001)
        ),
    ]
    caption = f"{result.pairs:,} pairs of classes that training never saw; ± is the standard error over the folds"
    parts = [table(["measurement", "value"], rows, caption, "numbers")]
    same, different = hardest_pairs(seen.verified, seen.found.images, seen.found.classes, max(pictures // 2, 1))
    for title, chosen in (("One class, furthest apart", same), ("Two classes, closest together", different)):
        parts += [element("h3", title), element("div", *map(_pair, chosen), class_="gallery pairs")]
    return [_section(index, "pairs", "Verification", *parts)]


def _pair(one: PairExample) -> Html:
    said = one.classes[0] if one.same else f"{one.classes[0]} / {one.classes[1]}"
    images = (
        [element("img", src=src, alt=f"Image of {name}") for src, name in zip(one.pictures, one.classes, strict=True)]
        if one.pictures is not None
        else []
    )
    return element("figure", element("div", *images), element("figcaption", element("b", said), f" {one.degrees:.0f}°"))


def _source(subject: Subject) -> Html:
    command = element("pre", element("code", subject.run.command), tabindex=0)
    button = element("button", "Copy", type="button", class_="copy", aria_label="Copy the command")
    skip = ("command",)
    names = dict.fromkeys(name for seed in subject.seeds for name in seed.environment if name not in skip)
    rows = [[name.replace("_", " "), *(shown(seed.environment.get(name)) for seed in subject.seeds)] for name in names]
    parts = [element("div", command, button, class_="command")]
    if rows:
        head = ["", *(f"seed {seed.number}" for seed in subject.seeds)]
        parts.append(table(head, rows, "Versions, device and commit of every seed"))
    others = {str(seed.environment.get("command") or subject.run.command) for seed in subject.seeds}
    others -= {subject.run.command}
    parts += [
        element("p", "Another seed was trained by: ", element("code", other), class_="note") for other in sorted(others)
    ]
    parts.append(element("p", "Run folder: ", element("code", subject.run.path.resolve()), class_="note"))
    return join(parts)
