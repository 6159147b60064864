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
from tagwood.models.ensemble_members import Candidates, Member, as_member, some_rows, split_rows
from tagwood.models.ensemble_weights import check_shares, check_weights, learn_shares
from tagwood.ranking import Ranking
from tagwood.storage import State, storable
from tagwood.storage.registry import restore

WAYS = ("auto", "probability", "scaled", "rank")
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
        One positive number per member; default those that rank held-out rows best, all equal where there are none.
    how
        What is averaged: ``"probability"``, ``"scaled"`` scores, or ``"rank"``, 1 / place; ``"auto"``: probabilities
        where members are calibrated, otherwise scaled scores.
    candidates
        Labels per row that each member brings in.
    holdout
        Share of the rows that `fit` keeps back to calibrate and weigh the members, where that is 100 rows or more; 0
        for none.

    Attributes
    ----------
    shares_ : how much each member counts, learned from held-out rows; None where weights were given or no rows

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
    shares_: Floats | None = None

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
        kept, held = split_rows(labels.shape[0], self.holdout)
        options = {"label_texts": label_texts, "progress": progress}
        fitted = [member.fresh(texts) for member in self._given()]
        for member in fitted:
            member.fit(some_rows(rows, kept), labels[kept], options)
        self.members_, self.calibrators_, self.shares_ = fitted, None, None
        return self if held.size == 0 else self.calibrate(some_rows(rows, held), labels[held])

    def calibrate(self, X: Any, Y: Any) -> Self:
        """Turn each member's scores into probabilities, and learn how much it counts if `weights` are not given.

        X and Y are rows that no member was trained on.
        """
        rows, labels = list(X) if self.takes == "texts" else X, check_labels(Y)
        members = self._ready()
        inputs = [member.encode(rows) for member in members]
        found = [m.model.rank(x, self.candidates) for m, x in zip(members, inputs, strict=True)]
        self.calibrators_ = [Calibrator().fit(ranking, labels) for ranking in found]
        if self.weights is None:
            self.shares_ = learn_shares(*self._opinions(inputs, found), labels)
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
        opinions, cells = self._opinions(inputs, found)
        return cells.ranking(self._shares() @ np.stack(opinions), k)

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

    def settled(self) -> Self:
        """Return an unfitted copy whose members do not try again what they chose by trials."""
        return type(self)(**{**self.get_params(), "members": [member.settled() for member in self._ready()]})

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
        shares = None if self.shares_ is None else self.shares_.tolist()
        return State(
            "Ensemble", params={"init": init, "members": len(members), "shares": shares}, parts=parts
        )

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
        if state.params.get("shares") is not None:
            ensemble.shares_ = check_shares(state.param("shares", list), len(members))
        return ensemble

    def _opinions(self, inputs: list[Any], found: list[Ranking]) -> tuple[list[Floats], Candidates]:
        """Return what each member says of all candidates, from its input and its own ranking."""
        cells = Candidates.of(found)
        parts = zip(self._ready(), inputs, found, strict=True)
        return [self._opinion(number, *part, cells) for number, part in enumerate(parts)], cells

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

    def _shares(self) -> Floats:
        if self.weights is None:
            return (
                np.full(len(self.members), 1.0 / len(self.members)) if self.shares_ is None else self.shares_
            )
        given = np.asarray(self.weights, dtype=np.float64)
        shares: Floats = given / given.sum()
        return shares

    def _check_params(self) -> None:
        for member in self._given():
            member.check()
        check_choice(self.how, "how", WAYS)
        check_int(self.candidates, "candidates", low=1)
        check_float(self.holdout, "holdout", low=0.0, high=0.9)
        if self.weights is not None:
            check_weights(self.weights, len(self.members))

    def _check_fitted(self) -> None:
        self._ready()
