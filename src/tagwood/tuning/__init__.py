"""Search for better settings: recipes by trial (`tune`), thresholds by table (`measure_cuts`).

In: a dataset, a recipe, ranges; or rankings and their truth. Out: the best recipe, the best threshold. Order of the
modules: ranges, trial (one measurement), study (many, kept in a folder), search; cuts (thresholds).
"""

from tagwood.tuning.search import tune
from tagwood.tuning.study import Ranges, Trial, Tuned, default_ranges, parse_ranges, read_ranges

__all__ = ["Ranges", "Trial", "Tuned", "default_ranges", "parse_ranges", "read_ranges", "tune"]
