"""Search for better settings: recipes by trials (`search`, `study`), set rules by measurement (`thresholds`).

In: a dataset, a recipe, ranges; or rankings and their true labels. Out: the best recipe, the best threshold.
"""

from tagwood.tuning.search import tune
from tagwood.tuning.study import Ranges, RecipeTrial, Tuned, default_ranges, parse_ranges, read_ranges

__all__ = ["Ranges", "RecipeTrial", "Tuned", "default_ranges", "parse_ranges", "read_ranges", "tune"]
