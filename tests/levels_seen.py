"""The counts of each level as TopDown releases them on its way down."""

from tallyveil.engine import level as engine
from tallyveil.nouns.counts import Counts


def levels_seen(monkeypatch) -> dict[str, Counts]:
    """Counts of each level above the leaves, by its name, filled while TopDown runs."""
    seen: dict[str, Counts] = {}
    work = engine.Level

    def record(measurements, level, above, *rest):
        seen[measurements.spine.levels[measurements.spine.depth(level) - 1]] = above
        return work(measurements, level, above, *rest)

    monkeypatch.setattr(engine, "Level", record)
    return seen
