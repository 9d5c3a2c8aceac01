"""The counts of each level as TopDown releases them on its way down."""

from tallyveil.engine import level as engine
from tallyveil.nouns.counts import Counts


def levels_seen(monkeypatch) -> dict[str, Counts]:
    """Counts of each level above the leaves, by its name, filled while TopDown runs."""
    seen: dict[str, Counts] = {}
    work = engine.Level

    def record(answers, level, above, *rest):
        spine = answers.measurements.spine
        seen[spine.levels[spine.depth(level) - 1]] = above
        return work(answers, level, above, *rest)

    monkeypatch.setattr(engine, "Level", record)
    return seen
