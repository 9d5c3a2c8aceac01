"""Every table and figure of the four papers, recomputed and compared with the published numbers."""

from __future__ import annotations

from collections.abc import Sequence

from tallyveil.errors import InputError
from tallyveil_papers.figure import Figure
from tallyveil_papers.reader import NAMES, Paper, read_paper
from tallyveil_papers.registry import Item, Outcome, Setting, published

__all__ = ["Figure", "Item", "Outcome", "Setting", "items", "papers", "published"]


def papers() -> list[Paper]:
    """The four papers, in the order of their publication.

    >>> [paper.key for paper in papers()]
    ['flaxman2019', 'petti2020', 'petti2020-appendix', 'kazan2022']
    """
    return [read_paper(name) for name in NAMES]


def items(keys: Sequence[str] = ()) -> list[Item]:
    """The items with these keys, or of the papers with them; all if no keys are given.

    >>> [item.key for item in items(["kazan2022.table3"])]
    ['kazan2022.table3']
    """
    every = [item for paper in papers() for item in paper.items]
    for key in keys:
        if not any(key in (item.key, item.paper) for item in every):
            known = ", ".join(paper.key for paper in papers())
            raise InputError(f"unknown item {key!r}. Give a paper ({known}) or an item's key (reproduce --list).")
    return [item for item in every if not keys or item.key in keys or item.paper in keys]
