"""Where a cluster is: the address of its scheduler, or a number of processes on this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import final

from tallyveil.errors import InputError


@final
@dataclass(frozen=True)
class ClusterPlace:
    """Where a cluster is, written as on the command line.

    Attributes
    ----------
    address
        ``tls://HOST:PORT`` or ``tcp://HOST:PORT`` of a Dask scheduler, or ``local:N`` for N processes here.
    allow_plaintext
        Whether true counts and the key of a stream may travel over ``tcp://``, where anyone on the way can read them.

    Examples
    --------
    >>> ClusterPlace("local:2").processes
    2
    >>> ClusterPlace("tls://scheduler.example.org:8786").encrypted
    True
    """

    address: str
    allow_plaintext: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"local:[0-9]{1,4}|(tls|tcp)://[^\s/:]+:[0-9]{1,5}|(tls|tcp)://\[[^\s/]+\]:[0-9]{1,5}",
                            self.address):  # fmt: skip
            raise InputError(
                f"cluster {self.address!r}: not an address. Write tls://HOST:PORT, tcp://HOST:PORT or local:N."
            )
        if self.processes == 0:
            raise InputError(f"cluster {self.address!r}: 0 processes. Write local:1 or more.")

    @property
    def processes(self) -> int | None:
        """The number of processes on this machine; None for a cluster elsewhere."""
        return int(self.address[6:]) if self.address.startswith("local:") else None

    @property
    def encrypted(self) -> bool:
        """Whether everything between the processes of the cluster must be encrypted: always, but for ``tcp://``."""
        return not self.address.startswith("tcp://")

    def refuse_plaintext(self, *, seeded: bool) -> None:
        """Refuse to send the truth and a secret key in plain text. A seed is no secret, and stamps the release."""
        if not (seeded or self.encrypted or self.allow_plaintext):
            raise InputError(
                f"cluster {self.address}: a run without a seed would send true counts and the key of its noise in "
                f"plain text. Use tls:// (see docs/how-to/cluster.md), or add --allow-plaintext."
            )
