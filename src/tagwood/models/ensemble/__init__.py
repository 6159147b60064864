"""Several models that answer as one."""

from tagwood.models.ensemble.model import Ensemble, MemberReport

__all__ = ["Ensemble", "MemberReport"]
