"""Draw the import graph of the package's rooms into ARCHITECTURE.md, as a Mermaid diagram made from the imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE, SOURCE = ROOT / "ARCHITECTURE.md", ROOT / "src" / "tallyveil"
BEGIN, END = "<!-- the import graph: made by docs/generate_graph.py -->\n", "<!-- end of the import graph -->\n"
EVERYWHERE = {"errors", "_compiled", "_frozen"}  # imported by every room


def rooms() -> list[str]:
    """The folders of the package."""
    return sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def imports(room: str) -> set[str]:
    """The other rooms that a room imports from when it is loaded; not what functions import when they are called."""
    names = (name for path in (SOURCE / room).rglob("*.py") for name in _imported(ast.parse(path.read_text())))
    found = {name.split(".")[1] for name in names if name.startswith("tallyveil.")}
    return found - {room} - EVERYWHERE


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def graph() -> str:
    """The diagram, without arrows that follow from others."""
    direct = {room: imports(room) & set(rooms()) for room in rooms()}
    lines = [f"    {room} --> {other}" for room in direct for other in sorted(direct[room] - _through(direct, room))]
    return "```mermaid\ngraph LR\n" + "\n".join(lines) + "\n```\n"


def _through(direct: dict[str, set[str]], room: str) -> set[str]:
    """The rooms that a room also reaches through another room that it imports."""
    found: set[str] = set()
    for other in direct[room]:
        seen, waiting = {room, other}, list(direct[other])
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                found.add(one)
                waiting += direct[one]
    return found


def page() -> str:
    """ARCHITECTURE.md with the graph as it is now."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + graph() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
