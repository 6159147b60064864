"""OTSeq2Set and its baselines: sequence models that generate the label set of a text."""

from tagwood.neural.otseq2set.model import SetGenerator
from tagwood.neural.otseq2set.settings import DecodingSettings, LossSettings, NetworkSettings, SetTraining

__all__ = ["DecodingSettings", "LossSettings", "NetworkSettings", "SetGenerator", "SetTraining"]
