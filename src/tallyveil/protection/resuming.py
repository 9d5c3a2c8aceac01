"""Interrupted runs: what is kept of a run with a key, for which job, and how it is used again.

Only finished pieces of levels are kept, which are computed from noisy measurements alone and cost no budget beyond that
of the measurements. A run without a key file or seed keeps nothing: its key is gone with its process, and the noise of
another key does not fit to the pieces.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from io import BytesIO
from os import PathLike
from typing import final

import numpy as np

from tallyveil.engine.pieces import Piece
from tallyveil.files.work_folder import Say, WorkFolder, open_work, remove_work
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.entropy import RunKey, Seal
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.strategy_toml import strategy_to_toml
from tallyveil.release.declare import versions
from tallyveil.release.solved import Solved
from tallyveil.scale.same import code_digest


def job_seal(
    key: RunKey,
    people: Histogram,
    strategy: Strategy,
    facilities: Facilities | None,
    optimised: OptimisedSpine | None,
    options: Iterable[object],
) -> Seal:
    """The seal of everything that the pieces of a run depend on, and of nothing that they do not depend on."""
    built = [] if facilities is None else [repr(facilities.types).encode(), *facilities.leaves.canonical_bytes()]
    measured = [] if optimised is None else optimised.spine.canonical_bytes()
    return key.seal(
        {
            "people": [key.people(people.identifying_bytes())],
            "strategy": [strategy_to_toml(strategy).encode()],
            "facilities": built,
            "spine": measured,
            "options": [repr(option).encode() for option in options],
            "versions": [repr(sorted(versions().items())).encode(), code_digest()],
        }
    )


@contextmanager
def kept_work(
    target: str | PathLike[str], seal: Seal | None, spine: Spine, *, resume: bool, say: Say
) -> Iterator[KeptWork | None]:
    """The pieces kept for a run that is about to draw noise; None for a run that cannot be repeated.

    The folder is removed when the run has ended well. It stays when the run was interrupted, which is then told.
    """
    if seal is None:
        if remove_work(target, resume=resume):
            say("the work of an interrupted run was removed: this run has no key file, and starts anew")
        elif resume:
            say("nothing to resume: without --key-file, an interrupted run keeps nothing; this run starts anew")
        yield None
        return
    folder = open_work(target, seal, resume=resume, say=say)
    if folder is None:
        yield None
        return
    work = KeptWork(folder)
    try:
        kept, whole = work.parents(), 1 + sum(spine.size(level) for level in spine.levels[:-1])
        if kept:
            say(f"resuming: {min(kept, whole):,} of {whole:,} parents are kept in {folder.path}")
        elif resume:
            say(f"nothing to resume in {folder.path}; this run starts anew")
        yield work
        work.remove()
        if work.used:
            say(f"resumed: {work.used:,} parents were kept, {work.solved:,} were solved now")
    except BaseException as problem:
        complete = os.path.lexists(target)  # the release appears as a whole, and needs its work no longer
        if complete or not work.parents():
            work.remove()
        if complete:
            problem.add_note(f"{target} is complete.")
        elif work.parents() and not isinstance(problem, Exception):
            problem.add_note(f"Finished work is kept in {folder.path}: the same command resumes it.")
        raise
    finally:
        folder.close()


@final
class KeptWork:
    """Finished pieces of a run in a work folder (``engine.pieces.KeptPieces``), and how many parents they are about."""

    def __init__(self, folder: WorkFolder) -> None:
        self.path, self.used, self.solved = folder.path, 0, 0
        self._folder, self._guard = folder, threading.Lock()

    def get(self, name: str) -> Piece | None:
        """The piece of this name, if it is kept."""
        content = self._folder.get(name)
        if content is None:
            return None
        piece = _from_bytes(content)
        with self._guard:
            self.used += piece.parents
        return piece

    def keep(self, name: str, piece: Piece) -> None:
        """Keep a finished piece."""
        self._folder.keep(name, _to_bytes(piece))
        with self._guard:
            self.solved += piece.parents

    def parents(self) -> int:
        """About how many parents are kept; a few are kept twice if the failsafe changed units around them."""
        spans = (re.fullmatch(r"root|\d+-[01]-(\d+)-(\d+)", name) for name in self._folder.names())
        return sum(1 if span[1] is None else int(span[2]) - int(span[1]) for span in spans if span)

    def remove(self) -> None:
        """Remove the work: the run has ended well, or would end in the same way again."""
        self._folder.remove()


def _to_bytes(piece: Piece) -> bytes:
    out = BytesIO()
    for array in (piece.sizes, piece.cell, piece.count):
        np.save(out, array, allow_pickle=False)
    solved = {name: value for name, value in asdict(piece.solved).items() if name != "relaxed"}  # of levels only
    out.write(json.dumps({"parents": piece.parents, "solved": solved}).encode())
    return out.getvalue()


def _from_bytes(content: bytes) -> Piece:
    stored = BytesIO(content)
    sizes, cell, count = (np.load(stored, allow_pickle=False) for _ in range(3))
    rest = json.loads(stored.read())
    return Piece(parents=rest["parents"], sizes=sizes, cell=cell, count=count, solved=Solved(**rest["solved"]))
