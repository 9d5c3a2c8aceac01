"""Where work runs when one machine is not enough: an existing Dask cluster, or processes on this machine."""

from tallyveil.scale.cluster import Cluster, open_cluster
from tallyveil.scale.place import ClusterPlace

__all__ = ["Cluster", "ClusterPlace", "open_cluster"]
