"""What training will cost, before anything is trained, and settings that stay within limits.

`figures` measures the data, `forecast` computes time, memory and size, `operating_points` chooses settings.
"""

from tagwood.planning.figures import DataFigures, measure_figures
from tagwood.planning.forecast import Forecast, Value, figures_for, forecast_training
from tagwood.planning.operating_points import Limits, choose_point

__all__ = [
    "DataFigures",
    "Forecast",
    "Limits",
    "Value",
    "choose_point",
    "figures_for",
    "forecast_training",
    "measure_figures",
]
