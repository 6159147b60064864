"""Several models that rank as one."""

from tagwood.models.ensemble.model import Ensemble

__all__ = ["Ensemble"]
