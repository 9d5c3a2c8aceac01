"""kazan2022: all its items.

Ours are sums by the library. Each figure that nothing published confirms is confirmed by a sum written out by hand
(``kazan_by_hand``) or by what the errata give.
"""

from __future__ import annotations

from tallyveil.papers.kazan_budgets import ITEMS as BUDGETS
from tallyveil.papers.kazan_curves import ITEMS as CURVES
from tallyveil.papers.kazan_extensions import SECTION_3_2, SECTION_5
from tallyveil.papers.kazan_levels import ITEMS as LEVELS
from tallyveil.papers.kazan_right import ITEMS as RIGHT
from tallyveil.papers.kazan_sums import ITEMS as SUMS
from tallyveil.papers.kazan_tables import ITEMS as TABLES
from tallyveil.papers.kazan_tiles import ITEMS as TILES
from tallyveil.papers.registry import Item

ITEMS: tuple[Item, ...] = (*BUDGETS, SECTION_3_2, *TABLES, *CURVES, *LEVELS, *TILES, *RIGHT, SECTION_5, *SUMS)
