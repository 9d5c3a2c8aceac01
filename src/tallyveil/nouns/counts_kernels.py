"""The compiled loops of :class:`tallyveil.nouns.counts.Counts`, over the arrays of its compressed rows."""

import numpy as np

from tallyveil._compiled import compiled, part


@compiled
def sort_entries(unit, cell, count, units):  # type: ignore[no-untyped-def]
    """Sort entries by unit (counting sort), then by cell within each unit, and add entries of the same cell."""
    place = np.zeros(units + 1, np.int64)
    for i in range(len(unit)):
        if count[i] != 0:
            place[np.int64(unit[i]) + 1] += 1
    for u in range(units):
        place[u + 1] += place[u]
    cells = np.empty(place[units], cell.dtype)
    counts = np.empty(place[units], count.dtype)
    fill = place[:-1].copy()
    for i in range(len(unit)):
        if count[i] != 0:
            slot = fill[unit[i]]
            cells[slot] = cell[i]
            counts[slot] = count[i]
            fill[unit[i]] = slot + 1
    start = np.zeros(units + 1, np.int64)
    kept = 0
    for u in range(units):
        first, last = place[u], place[u + 1]
        gap = 1
        while 64 * gap < last - first:  # Shell's sort; few entries: insertion sort
            gap = 3 * gap + 1
        while gap > 0:
            for i in range(first + gap, last):
                this_cell, this_count, j = cells[i], counts[i], i
                while j >= first + gap and cells[j - gap] > this_cell:
                    cells[j], counts[j] = cells[j - gap], counts[j - gap]
                    j -= gap
                cells[j], counts[j] = this_cell, this_count
            gap //= 3
        for i in range(first, last):
            if i > first and kept > start[u] and cells[kept - 1] == cells[i]:
                counts[kept - 1] += counts[i]
            else:
                cells[kept] = cells[i]
                counts[kept] = counts[i]
                kept += 1
        start[u + 1] = kept
    if kept == len(cells):
        return start, cells, counts
    return start, cells[:kept].copy(), counts[:kept].copy()


@compiled
def count_merged(starts, cell, row_of_cell, rows):  # type: ignore[no-untyped-def]
    """Return where the entries of each group will start: the running total of its non-empty rows."""
    groups = len(starts) - 1
    start = np.zeros(groups + 1, np.int64)
    seen = np.full(rows, -1, np.int64)
    for g in range(groups):
        distinct = 0
        for i in range(starts[g], starts[g + 1]):
            row = row_of_cell[cell[i]]
            if seen[row] != g:
                seen[row] = g
                distinct += 1
        start[g + 1] = start[g] + distinct
    return start


@part
def insert_sorted(values, first, last):  # type: ignore[no-untyped-def]
    """Sort a few values that are nearly in order (insertion sort)."""
    for i in range(first + 1, last):
        value, j = values[i], i
        while j > first and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@compiled
def fill_merged(starts, cell, count, row_of_cell, rows, start, out_cell, out_count):  # type: ignore[no-untyped-def]
    """Sum the entries of each group by row, and write the rows in increasing order."""
    groups = len(starts) - 1
    sums = np.zeros(rows, np.int64)
    row_list = np.empty(rows, np.int64)
    for g in range(groups):
        distinct = 0
        for i in range(starts[g], starts[g + 1]):
            row = row_of_cell[cell[i]]
            if sums[row] == 0:
                row_list[distinct] = row
                distinct += 1
            sums[row] += count[i]
        if distinct > 48:  # many rows: read them all, in order
            distinct = 0
            for row in range(rows):
                if sums[row] != 0:
                    row_list[distinct] = row
                    distinct += 1
        else:
            insert_sorted(row_list, 0, distinct)
        for i in range(distinct):
            out_cell[start[g] + i] = row_list[i]
            out_count[start[g] + i] = sums[row_list[i]]
            sums[row_list[i]] = 0


@compiled
def look_up(start, cell, count, row_of_cell, rows, index, out):  # type: ignore[no-untyped-def]
    """Sum the cells of a unit by row once per run of places in that unit, then read the requested rows."""
    sums = np.zeros(rows, np.int64)
    done = 0
    while done < len(index):
        unit = index[done] // rows
        for i in range(start[unit], start[unit + 1]):
            sums[row_of_cell[cell[i]]] += count[i]
        while done < len(index) and index[done] // rows == unit:
            out[done] = sums[index[done] - unit * rows]
            done += 1
        for i in range(start[unit], start[unit + 1]):
            sums[row_of_cell[cell[i]]] = 0
