"""`Ensemble`: several models that answer as one. In: models, fitted or not. Out: one ranking of their joined opinions.

Models that read features and models that read texts may be mixed: a member is then a pair (encoder, model).

Decisions
---------
* Every member names its best candidates, and then scores the candidates of all others too, where it can
  (`score_labels`): a label that only one member ranks high is not taken for one that the others know nothing of.
* Scores of different models are not comparable. ``how="scaled"`` brings each member's scores of a row to [0, 1];
  ``"probability"`` asks calibrators, which need held-out rows (`calibrate`); ``"rank"`` looks at places only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood._check import check_choice, check_int
from tagwood.errors import InputError, NotFittedError
from tagwood.models.base import FittedModel
from tagwood.models.calibration import Calibrator
from tagwood.models.ensemble_members import Candidates, Member, as_member
from tagwood.ranking import Ranking
from tagwood.storage import State, storable
from tagwood.storage.registry import restore

WAYS = ("scaled", "probability", "rank")
Floats = NDArray[np.float64]


@storable("Ensemble")
class Ensemble(FittedModel):
    """Join the rankings of several models.

    Parameters
    ----------
    members
        Models, pairs (encoder, model), or Taggers with the same labels. If all are fitted, the ensemble is ready;
        otherwise `fit` trains copies of them. A model that reads features beside one that reads texts needs its
        encoder; `fit` takes TF-IDF for one that has none.
    weights
        One positive number per member; default all equal.
    how
        What is averaged: ``"scaled"`` scores, ``"probability"`` (after `calibrate`), or ``"rank"``, 1 / place.
    candidates
        Labels per row that each member brings in.

    Examples
    --------
    >>> from tagwood.models.linear_tree import LinearTree
    >>> X, Y = np.eye(3, dtype=np.float32), [[0], [1], [2]]
    >>> one, two = (LinearTree(threads=1, cost=cost).fit(X, Y) for cost in (1.0, 2.0))
    >>> Ensemble([one, two]).rank(X, k=1).labels.tolist()
    [0, 1, 2]
    """

    members_: list[Member]
    calibrators_: list[Calibrator] | None = None

    def __init__(
        self,
        members: Sequence[Any],
        *,
        weights: Sequence[float] | None = None,
        how: str = "scaled",
        candidates: int = 100,
    ) -> None:
        self.members = members
        self.weights = weights
        self.how = how
        self.candidates = candidates

    @property
    def takes(self) -> str:
        """``"texts"`` if a member reads texts, itself or by an encoder; otherwise ``"features"``."""
        return "texts" if any(member.takes_texts for member in self._given()) else "features"

    @property
    def n_labels_(self) -> int:  # type: ignore[override]
        """Number of labels of the fitted members."""
        members = getattr(self, "members_", None) or self._given()
        return int(members[0].model.n_labels_)

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        label_texts: Sequence[str] | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> Self:
        """Train copies of all members on the same rows.

        Parameters
        ----------
        X
            Texts, or features if no member reads texts.
        Y
            (n_rows, n_labels) label sets.
        label_texts
            One text per label, for members that read them.
        progress
            Called with a stage's name and the share done.
        """
        self._check_params()
        texts = self.takes == "texts"
        rows = list(X) if texts else X
        options = {"label_texts": label_texts, "progress": progress}
        fitted = []
        for member in self._given():
            new = member.fresh(texts)
            known = inspect.signature(new.model.fit).parameters
            given = {name: value for name, value in options.items() if name in known and value is not None}
            new.fit(rows, Y, given)
            fitted.append(new)
        self.members_, self.calibrators_ = fitted, None
        return self

    def calibrate(self, X: Any, Y: Any) -> Self:
        """Turn the scores of each member into probabilities, from rows that no member was trained on."""
        found = [member.rank(X, self.candidates, {}) for member in self._ready()]
        self.calibrators_ = [Calibrator().fit(ranking, Y) for ranking in found]
        return self

    def rank(
        self,
        X: Any,
        k: int = 5,
        *,
        restrict: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
    ) -> Ranking:
        """Return the `k` labels with the best joined score of each row.

        Parameters
        ----------
        X
            Texts, or features if no member reads texts.
        k
            Labels per row.
        restrict, exclude
            Label ids that may, or may not, be returned.
        """
        members = self._ready()
        check_int(k, "k", low=1)
        rows = list(X) if self.takes == "texts" else X
        limits = {"restrict": restrict, "exclude": exclude}
        limits = {name: value for name, value in limits.items() if value is not None}
        inputs = [member.encode(rows) for member in members]
        wanted = max(k, self.candidates)
        found = [m.model.rank(x, wanted, **limits) for m, x in zip(members, inputs, strict=True)]
        cells = Candidates.of(found)
        total = np.zeros(cells.cells.size)
        for number, (weight, member) in enumerate(zip(self._shares(), members, strict=True)):
            total += weight * self._opinion(number, member, inputs[number], found[number], cells)
        return cells.ranking(total, k)

    def predict(self, X: Any) -> sparse.csr_array:
        """Return the label sets: labels that members with at least half of the weight predict."""
        rows = list(X) if self.takes == "texts" else X
        votes = sum(
            weight * member.model.predict(member.encode(rows)).astype(np.float64)
            for weight, member in zip(self._shares(), self._ready(), strict=True)
        )
        kept = sparse.csr_array(votes)
        kept.data = (kept.data >= 0.5 - 1e-9).astype(np.float32)
        kept.eliminate_zeros()
        return kept

    def state(self) -> State:
        """Return the stored form: the members, each with its own."""
        members = self._ready()
        calibrators = self.calibrators_
        parts = {f"model_{place}": member.model.state() for place, member in enumerate(members)}
        parts |= {f"encoder_{i}": m.encoder.state() for i, m in enumerate(members) if m.encoder is not None}
        parts |= {f"calibrator_{i}": one.state() for i, one in enumerate(calibrators or [])}
        init = {"weights": None if self.weights is None else [float(weight) for weight in self.weights]}
        init |= {"how": self.how, "candidates": self.candidates}  # type: ignore[dict-item]
        return State("Ensemble", params={"init": init, "members": len(members)}, parts=parts)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the ensemble; its members are fitted."""
        places = range(check_int(state.param("members", int), "members", low=1))
        members: list[Any] = []
        for place in places:
            model = restore(state.part(f"model_{place}"))
            encoded = f"encoder_{place}" in state.parts
            members.append((restore(state.part(f"encoder_{place}")), model) if encoded else model)
        ensemble = cls(members, **state.param("init", dict))
        ensemble._ready()
        if "calibrator_0" in state.parts:
            ensemble.calibrators_ = [
                Calibrator.from_state(state.part(f"calibrator_{place}")) for place in places
            ]
        return ensemble

    def _opinion(self, number: int, member: Member, X: Any, found: Ranking, cells: Candidates) -> Floats:
        """Return what a member says of each candidate, from 0 to 1."""
        if self.how == "rank":
            return cells.places(found)
        scores = cells.scores(found, member.model, X)
        if self.how == "scaled":
            return cells.scaled(scores)
        calibrators = self.calibrators_
        if calibrators is None:
            raise NotFittedError(
                "how='probability' needs calibrated members",
                hint="Call calibrate(X, Y) with held-out rows, or take how='scaled'.",
            )
        return cells.calibrated(scores, calibrators[number])

    def _given(self) -> list[Member]:
        if isinstance(self.members, str) or not isinstance(self.members, Sequence) or not self.members:
            raise InputError("members must be a list of models", given=repr(self.members)[:60])
        return [as_member(member) for member in self.members]

    def _ready(self) -> list[Member]:
        """Return the fitted members: those of `fit`, or those that were given fitted."""
        if hasattr(self, "members_"):
            return self.members_
        self._check_params()
        members = self._given()
        if not all(member.is_fitted for member in members):
            raise NotFittedError(
                "this Ensemble must be fitted first", hint="Call fit(X, Y), or give fitted members."
            )
        sizes = [int(member.model.n_labels_) for member in members]
        if len(set(sizes)) > 1:
            raise InputError("members must have the same labels", given=f"{sizes} labels")
        if self.takes == "texts" and not all(member.takes_texts for member in members):
            raise InputError(
                "beside a member that reads texts, a model that reads features needs its encoder",
                given="a fitted model without one",
                hint="Give the pair (encoder, model), or a Tagger.",
            )
        return members

    def _shares(self) -> Floats:
        given = (
            np.ones(len(self.members)) if self.weights is None else np.asarray(self.weights, dtype=np.float64)
        )
        shares: Floats = given / given.sum()
        return shares

    def _check_params(self) -> None:
        for member in self._given():
            member.check()
        check_choice(self.how, "how", WAYS)
        check_int(self.candidates, "candidates", low=1)
        if self.weights is not None:
            given = np.asarray(self.weights, dtype=np.float64)
            if given.shape != (len(self.members),) or not np.all(np.isfinite(given)) or np.any(given <= 0):
                raise InputError(
                    f"weights must hold one positive number for each of the {len(self.members)} members",
                    given=str(self.weights),
                )

    def _check_fitted(self) -> None:
        self._ready()
