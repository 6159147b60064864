"""Several models that answer as one."""

from tagwood.models.ensemble.budget import Budget
from tagwood.models.ensemble.model import Ensemble, Evidence, MemberEvidence
from tagwood.models.ensemble.trial import MemberReport

__all__ = ["Budget", "Ensemble", "Evidence", "MemberEvidence", "MemberReport"]
