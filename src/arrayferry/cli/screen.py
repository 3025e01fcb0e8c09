"""Where a command shows things: tables on stdout, progress on stderr, or JSON and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from arrayferry.cli.exits import UsageError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

__all__ = ["Screen", "escaped", "table"]


class Screen:
    """Two consoles of rich; colour and progress only where a person looks."""

    def __init__(self, *, as_json: bool = False) -> None:
        console = _console_class()
        self.as_json = as_json
        self.out: Console = console(highlight=False, quiet=as_json)
        self.err: Console = console(highlight=False, stderr=True)

    def show(self, *things: RenderableType) -> None:
        """Show tables or lines of rich's markup; nothing when the output is JSON."""
        for thing in things:
            self.out.print(thing)

    def result(self, data: dict[str, Any]) -> None:
        """The result for machines, if they asked for it."""
        if self.as_json:
            print(json.dumps(data, indent=1))

    @contextmanager
    def progress(self, text: str, total: float) -> Iterator[Callable[..., None]]:
        """A progress bar while the work goes on; call what you get with `completed=` or `advance=`."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
        hidden = not self.err.is_terminal
        with Progress(*columns, console=self.err, transient=True, disable=hidden) as bar:
            task = bar.add_task(text, total=total)

            def tell(advance: float | None = None, **changes: Any) -> None:
                bar.update(task, advance=advance, **changes)

            yield tell


def _console_class() -> type[Console]:
    try:
        from rich.console import Console
    except ImportError as error:
        raise UsageError('the command needs rich: pip install "arrayferry[cli]"') from error
    return Console


def table(title: str, *heads: str) -> Table:
    """An empty table in our style; heads that start with `>` are of numbers, and stay in one piece."""
    from rich.table import Table

    made = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1))
    for head in heads:
        number = head.startswith(">")
        made.add_column(
            head.lstrip(">"), justify="right" if number else "left", no_wrap=number, overflow="fold"
        )
    return made


def escaped(text: str) -> str:
    """Text that is no markup, whatever brackets it has."""
    from rich.markup import escape

    return escape(text)
