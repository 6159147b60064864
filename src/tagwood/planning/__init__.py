"""What training will cost, before anything is trained, and settings that keep to limits.

Order of the modules: text_figures, label_figures, figures (what the data look like); tree_shape (what the settings
make of it); coefficients (measured by ``python -m benchmarks.plan``), forecast; operating_points (limits in, settings
out); memory (of this machine); quantities (``"2GB"``, ``"5ms"``).
"""

from tagwood.planning.figures import DataFigures, measure_figures
from tagwood.planning.forecast import Forecast, Value, forecast_training
from tagwood.planning.operating_points import Limits, choose_point

__all__ = [
    "DataFigures",
    "Forecast",
    "Limits",
    "Value",
    "choose_point",
    "forecast_training",
    "measure_figures",
]
