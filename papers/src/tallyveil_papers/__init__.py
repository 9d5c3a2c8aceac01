"""Every table and figure of the four papers, computed again beside the published numbers."""

from __future__ import annotations

from collections.abc import Sequence

from tallyveil.errors import InputError
from tallyveil_papers.registry import Figure, Item, Outcome, Setting, published

__all__ = ["Figure", "Item", "Outcome", "Setting", "items", "published"]


def items(keys: Sequence[str] = ()) -> list[Item]:
    """The items with these keys, or of papers with them; all if none are given.

    >>> [item.key for item in items(["kazan2022.table3"])]
    ['kazan2022.table3']
    """
    from tallyveil_papers import appendix, flaxman, kazan, petti

    every = [*flaxman.ITEMS, *petti.ITEMS, *appendix.ITEMS, *kazan.ITEMS]
    for key in keys:
        if not any(key in (item.key, item.paper) for item in every):
            papers = ", ".join(dict.fromkeys(item.paper for item in every))
            raise InputError(f"unknown item {key!r}. Give a paper ({papers}) or an item's key (reproduce --list).")
    return [item for item in every if not keys or item.key in keys or item.paper in keys]
