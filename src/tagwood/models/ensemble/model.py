"""`Ensemble`: several models that rank as one. In: models, fitted or not. Out: one ranking from all their scores.

Models that read features and models that read texts may be mixed: a member is then a pair (encoder, model).

Decisions
---------
* Every member returns its best candidates, and then scores the candidates of all others too, where it can
  (`score_labels`): a label that only one member ranks high is not taken as unknown to the others.
* Scores of different models are not comparable, and members are not equally good. Both are learned from held-out rows,
  by one logistic curve over all scores (`JointLogistic`): `fit` holds rows out, and `calibrate` takes them for members
  that were fitted elsewhere. Without them, or with given `weights`, each member's scores of a row are scaled to [0, 1],
  which discards how sure it was: on titles with a weak tree and a strong PRIME, P@1 was then 6.4, against 17.2 with the
  curve and 15.6 for PRIME alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood._check import check_float, check_int
from tagwood._sparse import check_labels
from tagwood.errors import InputError, NotFittedError
from tagwood.models.base import FittedModel, check_text_rows, check_training_data
from tagwood.models.ensemble.fusion import JointLogistic
from tagwood.models.ensemble.members import (
    Candidates,
    Member,
    as_member,
    check_weights,
    fit_members,
    some_rows,
    split_rows,
    vote,
)
from tagwood.ranking import Ranking
from tagwood.storage import State, storable
from tagwood.storage.state import restore

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
        One positive number per member, to average their scaled scores with. Default: learned from held-out rows, or all
        equal if there are none.
    candidates
        Labels per row that each member contributes.
    holdout
        Share of the rows that `fit` holds out to learn how much each member counts, if that is 100 rows or more; 0 for
        none.
    refit
        Train the members once more on all rows after that, without trials of their own.

    Attributes
    ----------
    joint_ : JointLogistic, whose `shares` are how much each member counts; None without held-out rows

    Examples
    --------
    >>> from tagwood.models.linear_tree import LinearTree
    >>> X, Y = np.eye(3, dtype=np.float32), [[0], [1], [2]]
    >>> one, two = (LinearTree(threads=1, C=C).fit(X, Y) for C in (1.0, 2.0))
    >>> Ensemble([one, two]).rank(X, k=1).labels.tolist()
    [0, 1, 2]
    """

    members_: list[Member]
    joint_: JointLogistic | None = None

    def __init__(
        self,
        members: Sequence[Any],
        *,
        weights: Sequence[float] | None = None,
        candidates: int = 100,
        holdout: float = 0.1,
        refit: bool = True,
    ) -> None:
        self.members = members
        self.weights = weights
        self.candidates = candidates
        self.holdout = holdout
        self.refit = refit

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
        y: Any,
        *,
        label_texts: Sequence[str] | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> Self:
        """Train copies of all members on the same rows.

        Parameters
        ----------
        X
            Texts, or features if no member reads texts.
        y
            (n_rows, n_labels) label sets.
        label_texts
            One text per label, for members that read them.
        progress
            Called with the name of a stage and the share done.
        """
        self.check_params()
        texts = self.takes == "texts"
        if texts:
            rows, labels = check_text_rows(X, y)
        else:
            features, labels = check_training_data(X, y)
            rows = features.to_scipy()
        kept, held = split_rows(labels.shape[0], self.holdout if self.weights is None else 0.0)
        options = {"label_texts": label_texts, "progress": progress}
        members = [member.fresh(texts) for member in self._given()]
        self.joint_ = None
        self.members_ = fit_members(members, some_rows(rows, kept), labels[kept], options)
        if held.size:
            self.calibrate(some_rows(rows, held), labels[held])
            if self.refit:
                again = [as_member(member.settled()).fresh(texts) for member in self.members_]
                self.members_ = fit_members(again, rows, labels, options)
        return self

    def calibrate(self, X: Any, Y: Any) -> Self:
        """Learn how much each member counts, from rows that no member was trained on."""
        if self.weights is not None:
            raise InputError(
                "calibrate learns the weights of the members", given="weights", hint="Leave weights out."
            )
        rows, labels = list(X) if self.takes == "texts" else X, check_labels(Y)
        members = self._ready()
        inputs = [member.encode(rows) for member in members]
        found = [m.model.rank(x, self.candidates) for m, x in zip(members, inputs, strict=True)]
        cells, scores = self._scores(inputs, found)
        self.joint_ = JointLogistic.fit(scores, cells.right(labels))
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
        cells, scores = self._scores(inputs, found)
        if self.joint_ is not None:
            return cells.ranking(self.joint_(scores), k)
        return cells.ranking(self._shares() @ np.stack([cells.scaled(one) for one in scores]), k)

    def predict(self, X: Any) -> sparse.csr_array:
        """Return the label sets: probabilities of 0.5 and more, or what members with half of the weight predict."""
        if self.joint_ is not None:
            return self.rank(X, k=self.candidates).above(0.5).to_sets()
        rows = list(X) if self.takes == "texts" else X
        return vote(self._ready(), self._shares(), rows)

    def settled(self) -> Self:
        """Return an unfitted copy whose members do not try again what they chose by trials."""
        return type(self)(
            **{**self.get_params(deep=False), "members": [member.settled() for member in self._ready()]}
        )

    def state(self) -> State:
        """Return the stored form: the members, each with its own."""
        members = self._ready()
        parts = {f"model_{place}": member.model.state() for place, member in enumerate(members)}
        parts |= {f"encoder_{i}": m.encoder.state() for i, m in enumerate(members) if m.encoder is not None}
        init: dict[str, Any] = {
            "weights": None if self.weights is None else [float(weight) for weight in self.weights]
        }
        init |= {name: getattr(self, name) for name in ("candidates", "holdout", "refit")}
        joint = None if self.joint_ is None else self.joint_.plain()
        return State("Ensemble", params={"init": init, "members": len(members), "joint": joint}, parts=parts)

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
        if state.params.get("joint") is not None:
            ensemble.joint_ = JointLogistic.of_plain(state.param("joint", dict), len(members))
        return ensemble

    def _scores(self, inputs: list[Any], found: list[Ranking]) -> tuple[Candidates, list[Floats]]:
        """Return all candidates, and the score that each member gives them."""
        cells = Candidates.of(found)
        parts = zip(self._ready(), inputs, found, strict=True)
        return cells, [cells.scores(ranking, member.model, x) for member, x, ranking in parts]

    def _given(self) -> list[Member]:
        if isinstance(self.members, str) or not isinstance(self.members, Sequence) or not self.members:
            raise InputError("members must be a list of models", given=repr(self.members)[:60])
        return [as_member(member) for member in self.members]

    def _ready(self) -> list[Member]:
        """Return the fitted members: those of `fit`, or those that were given fitted."""
        if hasattr(self, "members_"):
            return self.members_
        self.check_params()
        members = self._given()
        if not all(member.is_fitted for member in members):
            raise NotFittedError(
                "this Ensemble must be fitted first", hint="Call fit(X, y), or give fitted members."
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
        given = np.ones(len(self.members)) if self.weights is None else np.asarray(self.weights, dtype=float)
        shares: Floats = given / given.sum()
        return shares

    def check_params(self) -> None:
        """Raise `InputError` for a parameter with an invalid value."""
        for member in self._given():
            member.check()
        check_int(self.candidates, "candidates", low=1)
        check_float(self.holdout, "holdout", low=0.0, high=0.9)
        if self.weights is not None:
            check_weights(self.weights, len(self.members))

    def _check_fitted(self) -> None:
        self._ready()
