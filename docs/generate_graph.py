"""Write the import graph of the rooms of the package into ARCHITECTURE.md, as a Mermaid diagram."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE, SOURCE = ROOT / "ARCHITECTURE.md", ROOT / "src" / "tallyveil"
BEGIN, END = "<!-- the import graph: made by docs/generate_graph.py -->\n", "<!-- end of the import graph -->\n"
EVERYWHERE = {"errors", "_compiled", "_frozen"}  # imported by every room


def rooms() -> list[str]:
    """Return the folders of the package."""
    return sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def imports(room: str) -> set[str]:
    """Return the other rooms from which a room imports when it is loaded. Imports inside functions are ignored."""
    names = (name for path in (SOURCE / room).rglob("*.py") for name in _imported(ast.parse(path.read_text())))
    imported = {name.split(".")[1] for name in names if name.startswith("tallyveil.")}
    return imported - {room} - EVERYWHERE


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def graph() -> str:
    """Return the diagram, without arrows that follow from others."""
    direct = {room: imports(room) & set(rooms()) for room in rooms()}
    lines = [f"    {room} --> {other}" for room in direct for other in sorted(direct[room] - _through(direct, room))]
    return "```mermaid\ngraph LR\n" + "\n".join(lines) + "\n```\n"


def _through(direct: dict[str, set[str]], room: str) -> set[str]:
    """Return the rooms that a room also reaches through another room that it imports."""
    reached: set[str] = set()
    for other in direct[room]:
        seen, waiting = {room, other}, list(direct[other])
        while waiting:
            next_room = waiting.pop()
            if next_room not in seen:
                seen.add(next_room)
                reached.add(next_room)
                waiting += direct[next_room]
    return reached


def page() -> str:
    """Return ARCHITECTURE.md with the current graph."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + graph() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
