"""Several models that answer as one."""

from tagwood.models.ensemble.model import Ensemble, Evidence, MemberEvidence
from tagwood.models.ensemble.trial import MemberReport

__all__ = ["Ensemble", "Evidence", "MemberEvidence", "MemberReport"]
