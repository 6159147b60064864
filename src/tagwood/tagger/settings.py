"""Settings of a Tagger beside its encoder and model: how group labels and label sets are made."""

from __future__ import annotations

from dataclasses import dataclass

from tagwood._check import check_choice, check_float, check_int
from tagwood.errors import InputError
from tagwood.models.set_parsing import parse_rule


@dataclass(frozen=True)
class GroupRule:
    """How labels of groups become labels of rows; see `tagwood.impute_labels`.

    With `soft`, models that count entries by weight learn from all rows of a group that come near a label; others, and
    those who review, get the closest row alone.
    """

    method: str = "eagle"
    steps: int = 20
    step_size: float = 0.03
    contrast: float = 1.0
    soft: bool = True

    def check(self) -> None:
        """Raise `InputError` for a value that does not fit."""
        check_choice(self.method, "method", ["baseline", "eagle-0", "eagle"])
        check_int(self.steps, "steps", low=0)
        check_float(self.step_size, "step_size", above=0.0)
        check_float(self.contrast, "contrast", low=0.0, high=1.0)
        if not isinstance(self.soft, bool):
            raise InputError("soft must be true or false", given=repr(self.soft))


@dataclass(frozen=True)
class SetRules:
    """How rankings become label sets.

    Parameters
    ----------
    rule
        Which labels `predict` returns: ``"f1"``, ``"precision>=0.9"``, ``"recall>=0.8"``, ``"threshold>=0.5"`` or
        ``"top-5"``.
    holdout
        Share of the rows that `fit` keeps from training to turn scores into probabilities; 0 keeps none, and scores
        stay what the model gives. Fewer than `smallest` rows are not worth it, and more than `largest` not needed.
    refit
        Train once more on all rows after that, if more than 2 % were kept. It takes as long again and gives a better
        model. Probabilities and promises are then those of the model that did not see the held-out rows; False keeps
        that model, and the guarantee exact.
    """

    rule: str = "f1"
    holdout: float = 0.1
    smallest: int = 50
    largest: int = 10_000
    refit: bool = True

    def check(self) -> None:
        """Raise `InputError` for a value that does not fit."""
        parse_rule(self.rule)
        check_float(self.holdout, "holdout", low=0.0, high=0.9)
        check_int(self.smallest, "smallest", low=2)
        check_int(self.largest, "largest", low=self.smallest)
        if not isinstance(self.refit, bool):
            raise InputError("refit must be true or false", given=repr(self.refit))
