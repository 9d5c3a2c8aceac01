"""Where work runs when one machine is not enough: an existing Dask cluster, or processes on this machine.

And how much memory it takes: ``memory_limit``.
"""

from tallyveil._memory import memory_limit
from tallyveil.scale.cluster import Cluster, open_cluster
from tallyveil.scale.place import ClusterPlace

__all__ = ["Cluster", "ClusterPlace", "memory_limit", "open_cluster"]
