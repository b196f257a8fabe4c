"""A parser whose help is short where there are many settings, and that suggests an option for a misspelt one."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from .._core.checks import closest

_OWN = ("positional arguments", "options")


class Parser(argparse.ArgumentParser):
    """``--help`` shows what a command itself takes and names its groups of settings; ``--help GROUP`` shows a group.

    ``--help all`` shows everything.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "add_help": False, "allow_abbrev": False})
        self._help = self.add_argument(
            "-h", "--help", action=_Help, nargs=0, metavar="GROUP", help="show help and exit"
        )

    def add_argument_group(self, title: str | None = None, *args: Any, **options: Any) -> argparse._ArgumentGroup:
        """Add a group of settings, which ``--help GROUP`` shows."""
        if title not in _OWN:
            self._help.nargs = "?"
        return super().add_argument_group(title, *args, **options)

    def help_on(self, wanted: str) -> str:
        """The text of ``--help GROUP``, of ``--help`` for an empty name."""
        groups = {group.title: group for group in self._action_groups if group.title is not None}
        settings = [name for name in groups if name not in _OWN]
        wanted = wanted.removeprefix("--").partition(".")[0] if settings else ""
        if wanted and wanted != "all" and wanted not in settings:
            names = ", ".join(settings)
            self.error(f"--help {wanted}: there is no such group{closest(wanted, settings)} (groups: {names})")
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        if wanted in ("", "all"):
            formatter.add_text(self.description)
        for name, group in groups.items():
            if wanted in ("all", name) or (not wanted and name in _OWN):
                formatter.start_section(name)
                formatter.add_text(group.description)
                formatter.add_arguments(group._group_actions)
                formatter.end_section()
        text = formatter.format_help()
        if not wanted and settings:
            width = max(map(len, settings))
            lines = [f"  {name:{width}s}  {groups[name].description}" for name in settings]
            title = "settings: --GROUP.FIELD VALUE, explained by --help GROUP, or all of them by --help all"
            text = "\n".join([text, title, *lines, ""])
        tail = self._get_formatter()
        tail.add_text(self.epilog)
        return text if wanted not in ("", "all") or not self.epilog else f"{text}\n{tail.format_help()}"

    def known_options(self) -> list[str]:
        """Every option by its long name."""
        return [name for name in self._option_string_actions if name.startswith("--")]


class _Help(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        assert isinstance(parser, Parser)  # only a Parser has this action
        print(parser.help_on(str(values or "")), end="")
        parser.exit()


def refuse(parser: argparse.ArgumentParser, strange: Iterable[str]) -> NoReturn:
    """End with a message that names the first word that no option explains, and the closest option."""
    words = list(strange)
    first = next((word for word in words if word.startswith("-")), words[0])
    known = parser.known_options() if isinstance(parser, Parser) else []
    hint = closest(first.partition("=")[0], known) if first.startswith("-") else ""
    parser.error(f"unrecognized arguments: {' '.join(words)}{hint}")
