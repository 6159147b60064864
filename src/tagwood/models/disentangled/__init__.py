"""Label disentanglement: labels with several meanings get a copy in several leaves."""

from tagwood.models.disentangled.model import CopySettings, Disentangled

__all__ = ["CopySettings", "Disentangled"]
