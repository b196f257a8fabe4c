"""The snippets of a model card, run as they stand."""

import re


def run_snippets(folder, monkeypatch):
    """Shapes of logits and embedding after each."""
    monkeypatch.chdir(folder)
    snippets = re.findall(r"^```python\n(.*?)^```", (folder / "README.md").read_text(), flags=re.S | re.M)
    shapes = []
    for code in snippets:
        namespace = {}
        exec(compile(code, "README.md", "exec"), namespace)
        shapes.append({name: tuple(namespace[name].shape) for name in ("logits", "embedding") if name in namespace})
    return shapes
