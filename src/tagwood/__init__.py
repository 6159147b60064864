"""tagwood: tag anything with the few right labels out of thousands to millions."""

from importlib.metadata import version

from tagwood.ranking import Ranking

__version__ = version("tagwood")

__all__ = ["Ranking", "__version__"]
