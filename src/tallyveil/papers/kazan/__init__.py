"""kazan2022: all its items.

Ours are sums by the library. Each figure that nothing published confirms is confirmed by a sum written out by hand
(``by_hand``) or by what the errata give.
"""

from __future__ import annotations

from tallyveil.papers.kazan.budgets import ITEMS as BUDGETS
from tallyveil.papers.kazan.curves import ITEMS as CURVES
from tallyveil.papers.kazan.extensions import SECTION_3_2, SECTION_5
from tallyveil.papers.kazan.levels import ITEMS as LEVELS
from tallyveil.papers.kazan.right import ITEMS as RIGHT
from tallyveil.papers.kazan.sums import ITEMS as SUMS
from tallyveil.papers.kazan.tables import ITEMS as TABLES
from tallyveil.papers.kazan.tiles import ITEMS as TILES
from tallyveil.papers.registry import Item

ITEMS: tuple[Item, ...] = (*BUDGETS, SECTION_3_2, *TABLES, *CURVES, *LEVELS, *TILES, *RIGHT, SECTION_5, *SUMS)
