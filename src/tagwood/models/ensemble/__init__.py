"""Several models that answer as one."""

from tagwood.models.ensemble.model import Ensemble, Evidence, MemberEvidence, MemberReport

__all__ = ["Ensemble", "Evidence", "MemberEvidence", "MemberReport"]
