"""Everything that imports torch: the training loop and the neural models. Needs the extra ``neural``."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    from tagwood.errors import MissingExtraError

    raise MissingExtraError("a neural model", extra="neural") from error
