"""kazan2022: all its items.

Ours are sums by the library. Each figure that nothing published confirms is confirmed by a sum written out by hand
(``by_hand``) or by what the errata give.
"""

from __future__ import annotations

from tallyveil_papers.kazan.budgets import ITEMS as BUDGETS
from tallyveil_papers.kazan.curves import ITEMS as CURVES
from tallyveil_papers.kazan.extensions import SECTION_3_2, SECTION_5
from tallyveil_papers.kazan.levels import ITEMS as LEVELS
from tallyveil_papers.kazan.right import ITEMS as RIGHT
from tallyveil_papers.kazan.sums import ITEMS as SUMS
from tallyveil_papers.kazan.tables import ITEMS as TABLES
from tallyveil_papers.kazan.tiles import ITEMS as TILES
from tallyveil_papers.registry import Item

ITEMS: tuple[Item, ...] = (*BUDGETS, SECTION_3_2, *TABLES, *CURVES, *LEVELS, *TILES, *RIGHT, SECTION_5, *SUMS)
