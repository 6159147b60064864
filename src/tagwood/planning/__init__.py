"""What training will cost, before anything is trained, and settings that stay within limits.

`figures` measures the data, `probe` the machine, `forecast` computes time, memory and size, `operating_points` chooses
settings.
"""

from tagwood.planning.figures import DataFigures, measure_figures
from tagwood.planning.forecast import Forecast, Value, figures_for, forecast_training
from tagwood.planning.operating_points import Limits, choose_point
from tagwood.planning.probe import Speed, machine_speed

__all__ = [
    "DataFigures",
    "Forecast",
    "Limits",
    "Speed",
    "Value",
    "choose_point",
    "figures_for",
    "forecast_training",
    "machine_speed",
    "measure_figures",
]
