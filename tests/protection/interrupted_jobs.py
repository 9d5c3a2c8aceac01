"""Jobs that are interrupted after some of their pieces, and run again."""

from pathlib import Path

from small_release import small_facilities, small_people, small_strategy
from tallyveil import protect_to_folder
from tallyveil.privacy import RunKey


class Stop(BaseException):
    """An interruption, like Ctrl-C."""


def stopping_after(pieces: int | None):
    """Progress that interrupts a run after so many pieces of it."""
    left = iter(range(pieces - 1, -1, -1)) if pieces else iter([])

    def progress(*_):
        if next(left, None) == 0:
            raise Stop

    return progress


class Job:
    """A job with a key file, which can be run to the end or interrupted."""

    def __init__(self, folder: Path, **changed) -> None:
        people = small_people()
        self.given = {
            "truth": people,
            "strategy": small_strategy(people),
            "facilities": small_facilities(people),
            "failsafe": True,
            **changed,
        }
        self.folder, self.said = folder, []

    def run(self, *, stop_after: int | None = None, name: str = "out", **how) -> Path:
        self.said.clear()
        if not {"key", "seed"} & how.keys():
            how["key"] = RunKey.from_file(self.folder / "key")
        given = {"threads": 1, "progress": stopping_after(stop_after), **self.given, **how}
        target = self.folder / name
        protect_to_folder(given.pop("truth"), given.pop("strategy"), target, say=self.said.append, **given)
        return target

    def left(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("key"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
