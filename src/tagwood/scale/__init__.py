"""Beyond one machine: training, prediction and serving on Ray. The only package that imports ray.

`cluster` connects to a cluster and computes the jobs of `tagwood.models.tasks` there.
"""

from tagwood.scale.cluster import RayRunner, connect

__all__ = ["RayRunner", "connect"]
