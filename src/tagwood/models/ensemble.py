"""`Ensemble`: several models that answer as one. In: models, fitted or not. Out: one ranking of their joined opinions.

Models that read features and models that read texts may be mixed: a member is then a pair (encoder, model).

Decisions
---------
* Every member names its best candidates, and then scores the candidates of all others too, where it can
  (`score_labels`): a label that only one member ranks high is not taken for one that the others know nothing of.
* Scores of different models are not comparable. Probabilities are, and need held-out rows: `fit` keeps some back, and
  `calibrate` takes them for members that were fitted elsewhere. Without them, each member's scores of a row are brought
  to [0, 1], which forgets how sure it was. On held-out rows of TIBKAT (tree and PRIME; tree alone 27.3, 11.7) P@1 and
  P@5 were 33.0 and 13.1 with probabilities, 29.3 and 13.3 with scaled scores and with places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood._check import check_choice, check_float, check_int
from tagwood._sparse import check_labels
from tagwood.errors import InputError, NotFittedError
from tagwood.models.base import FittedModel
from tagwood.models.calibration import Calibrator
from tagwood.models.ensemble_members import Candidates, Member, as_member
from tagwood.ranking import Ranking
from tagwood.storage import State, storable
from tagwood.storage.registry import restore

WAYS = ("auto", "probability", "scaled", "rank")
_FEWEST = 100  # rows that are worth a calibration
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
        What is averaged: ``"probability"``, ``"scaled"`` scores, or ``"rank"``, 1 / place; ``"auto"``: probabilities
        where members are calibrated, otherwise scaled scores.
    candidates
        Labels per row that each member brings in.
    holdout
        Share of the rows that `fit` keeps back to calibrate the members, where that is 100 rows or more; 0 for none.

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
        how: str = "auto",
        candidates: int = 100,
        holdout: float = 0.1,
    ) -> None:
        self.members = members
        self.weights = weights
        self.how = how
        self.candidates = candidates
        self.holdout = holdout

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
        rows, labels = list(X) if texts else X, check_labels(Y)
        kept, held = self._split(labels.shape[0])
        options = {"label_texts": label_texts, "progress": progress}
        fitted = [member.fresh(texts) for member in self._given()]
        for member in fitted:
            member.fit(_rows(rows, kept), labels[kept], options)
        self.members_, self.calibrators_ = fitted, None
        return self if held.size == 0 else self.calibrate(_rows(rows, held), labels[held])

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
        """Return the label sets: probabilities of 0.5 and more, or what members with half of the weight predict."""
        if self.calibrators_ is not None and self.how in ("auto", "probability"):
            return self.rank(X, k=self.candidates).above(0.5).to_sets()
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
        init: dict[str, Any] = {
            "weights": None if self.weights is None else [float(weight) for weight in self.weights]
        }
        init |= {name: getattr(self, name) for name in ("how", "candidates", "holdout")}
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
        scores, calibrators = cells.scores(found, member.model, X), self.calibrators_
        if self.how == "scaled" or (self.how == "auto" and calibrators is None):
            return cells.scaled(scores)
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

    def _split(self, n_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows to train on, and those to calibrate on."""
        count = round(self.holdout * n_rows)
        order = np.random.default_rng(0).permutation(n_rows)
        cut = count if count >= _FEWEST else 0
        return np.sort(order[cut:]), np.sort(order[:cut])

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
        check_float(self.holdout, "holdout", low=0.0, high=0.9)
        if self.weights is not None:
            given = np.asarray(self.weights, dtype=np.float64)
            if given.shape != (len(self.members),) or not np.all(np.isfinite(given)) or np.any(given <= 0):
                raise InputError(
                    f"weights must hold one positive number for each of the {len(self.members)} members",
                    given=str(self.weights),
                )

    def _check_fitted(self) -> None:
        self._ready()


def _rows(X: Any, index: NDArray[np.int64]) -> Any:
    """Return some rows of texts or features."""
    return [X[row] for row in index] if isinstance(X, list) else X[index]
