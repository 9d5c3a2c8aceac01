"""The option ``--cluster`` of commands: checked before anything is read, opened before the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.scale.cluster import Cluster
    from tallyveil.scale.place import ClusterPlace


def cluster_place(address: str | None, *, allow_plaintext: bool = False, **here: int | None) -> ClusterPlace | None:
    """The place of a cluster, if one is named; refused together with the options for work on this machine."""
    from tallyveil.scale.place import ClusterPlace

    if address is None:
        if allow_plaintext:
            raise InputError("--allow-plaintext is for --cluster tcp://HOST:PORT. Leave it out, or name a cluster.")
        return None
    for name, value in here.items():
        if value is not None:
            raise InputError(
                f"--{name} and --cluster are both given. --{name} is for work without a cluster: give one."
            )
    return ClusterPlace(address, allow_plaintext=allow_plaintext)


@contextmanager
def opened(place: ClusterPlace | None) -> Iterator[Cluster | None]:
    """The open cluster for runs with a seed; None if the work stays here."""
    if place is None:
        yield None
        return
    from tallyveil.scale.cluster import open_cluster

    with open_cluster(place) as cluster:
        yield cluster
