"""Beyond one machine: training, prediction and serving on Ray. The only package that imports ray.

`cluster` connects to a cluster and computes the jobs of `tagwood.models.tasks` there; `prediction` tags folders of
files; `serving` has an application for Ray Serve.
"""

from tagwood.scale.cluster import RayRunner, connect, run_tasks
from tagwood.scale.prediction import BatchRequest, predict_folder

__all__ = ["BatchRequest", "RayRunner", "connect", "predict_folder", "run_tasks"]
