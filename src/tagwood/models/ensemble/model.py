"""`Ensemble`: several models that answer as one. In: models, and texts or features. Out: a `Ranking` of probabilities.

Decisions
---------
* What each member's score is worth is learned on rows that no member has seen: members rank rows they were trained on
  much better than new ones, and unequally so. A share of the rows is held out once, for all members; where rows are
  few, each is held out once in five rounds. Then all members are fitted again on all rows.
* The probabilities of the held-out rows, each from a fusion that has not seen the row either, are kept (`held_out_`):
  a Tagger calibrates label sets on them, and needs no rows of its own.
* A label whose only rows are held out is not a candidate for them: it may be in the table only because of these rows,
  and any match of its name would be right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood._lazy import sparse
from tagwood._sparse import check_labels
from tagwood.errors import InputError, NotFittedError
from tagwood.features.base import Encoder
from tagwood.features.tfidf import TfidfEncoder
from tagwood.models.base import (
    FittedModel,
    add_labels,
    check_text_rows,
    check_training_data,
)
from tagwood.models.ensemble.budget import Budget, Clock, Costs
from tagwood.models.ensemble.fusion import (
    PER_MEMBER,
    SHARED,
    Candidates,
    Fusion,
    gather,
    restore_fusion,
    shapley_values,
)
from tagwood.models.ensemble.members import Inputs, Member, Split, as_members, plan_splits
from tagwood.models.ensemble.together import LabelPairs, LabelsTogether
from tagwood.models.ensemble.training import MemberTraining, measure_costs
from tagwood.models.ensemble.trial import KEPT, TOGETHER, MemberReport, Trial, choose_members, learn_together, sigmoid
from tagwood.models.ensemble.updating import EarlierRows, update_members
from tagwood.models.label_filter import LabelFilter, allowed_labels
from tagwood.models.linear_tree.training import LabelUsage
from tagwood.models.name_matcher import CERTAIN, NameMatcher
from tagwood.models.tasks import Runner
from tagwood.ranking import Ranking
from tagwood.storage import State, storable
from tagwood.storage.state import restore

Progress = Callable[[str, float], None]
Floats = NDArray[np.float64]
_CANDIDATE_BYTES = 8  # of a label of a held-out row, which a Tagger stores
_TREE_BYTES = 900  # of a boosted tree of the fusion
_FUSIONS = ("auto", "boosted", "logistic", "mean")


class MemberEvidence(NamedTuple):
    """What a member reads of a row, what it adds to the log odds of a label, and at which place it ranks the label.

    `place` is 1 for the best label, and None where the label is not among the member's candidates.
    """

    member: Member
    rows: Any
    contribution: float
    place: int | None


class Evidence(NamedTuple):
    """What members found out about one label of one row: `base` and contributions add up to `log_odds`.

    `together` is what the other candidates of the row add, `partner` the one of them that tells most; None for none.
    """

    log_odds: float
    base: float
    members: list[MemberEvidence]
    together: float | None = None
    partner: int | None = None


class HeldOut(NamedTuple):
    """Rows that nothing was fitted on when they were ranked: their numbers, probabilities and true labels."""

    rows: NDArray[np.int64]
    ranking: Ranking
    truth: sparse.csr_array


@storable("Ensemble")
class Ensemble(FittedModel):
    """Fuse the rankings of several models into one ranking of probabilities.

    1. Rows are held out. 2. Members are fitted on the others and rank the held-out rows. 3. A fusion learns from each
    candidate's scores and places how likely it is right. 4. Members are fitted again on all rows.

    Parameters
    ----------
    members
        Models, pairs (encoder, model), or fitted Taggers with the same labels. If all are fitted, the ensemble can
        rank at once, by the mean of scaled scores, and `calibrate` learns the fusion; `fit` trains copies of them.
    encoder
        Turns texts into features for members that read features and have no encoder of their own, where other members
        read texts; fitted once for all. Default ``TfidfEncoder()``.
    fusion
        ``"boosted"`` trees, a ``"logistic"`` model, the ``"mean"`` of scaled scores, which learns nothing, or
        ``"auto"``: trees where they are better than the logistic model on held-out rows, and then what labels of a row
        tell of each other, where sets are better with it.
    fusion_trees
        Number of boosted trees; more than 100 learn in smaller steps, which takes longer and is a little better.
    candidates
        Labels per row that each member contributes.
    holdout
        Share of the rows that are held out, at most 6,000; 0 for none. Up to 5,000 rows, each is held out once.
    prune
        Leave out members without which held-out rows are ranked better by a standard error. The first one always
        stays: explanations rest on it.
    refit
        Fit the members again on all rows. False keeps those that have not seen the held-out rows, where these were held
        out together: the probabilities of `held_out_` are then exactly those of the model.
    seed
        Of the choice of held-out rows; members have their own.
    threads
        For prediction; members have their own. The result does not depend on it.

    Attributes
    ----------
    members_ : list of Member, the fitted members in use
    fusion_ : the fitted fusion; None for the mean
    together_ : LabelsTogether, or None
    report_ : list of MemberReport
    held_out_ : HeldOut, or None; not stored

    Examples
    --------
    >>> from tagwood.models.linear_tree import LinearTree
    >>> X, y = np.eye(3, dtype=np.float32), [[0], [1], [2]]
    >>> one, two = (LinearTree(threads=1, C=C).fit(X, y) for C in (1.0, 2.0))
    >>> Ensemble([one, two]).rank(X, k=1).labels.tolist()
    [0, 1, 2]
    """

    members_: list[Member]
    encoder_: Encoder | None = None
    fusion_: Fusion | None = None
    together_: LabelsTogether | None = None
    held_out_: HeldOut | None = None
    n_rows_: int = 0
    report_: list[MemberReport]

    def __init__(
        self,
        members: Sequence[Any],
        *,
        encoder: Encoder | None = None,
        fusion: str = "auto",
        fusion_trees: int = 100,
        candidates: int = 40,
        holdout: float = 0.2,
        prune: bool = True,
        refit: bool = True,
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self.members = members
        self.encoder = encoder
        self.fusion = fusion
        self.fusion_trees = fusion_trees
        self.candidates = candidates
        self.holdout = holdout
        self.prune = prune
        self.refit = refit
        self.seed = seed
        self.threads = threads

    @property
    def takes(self) -> str:
        """``"texts"`` if a member reads texts, or an encoder was given; otherwise ``"features"``."""
        reads = self.encoder is not None or any(member.takes_texts for member in as_members(self.members))
        return "texts" if reads else "features"

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        label_texts: Sequence[str] | None = None,
        label_names: Sequence[str | Sequence[str]] | None = None,
        rejected: Any = None,
        progress: Progress | None = None,
        runner: Runner | None = None,
        budget: Budget = Budget(),  # noqa: B008 (frozen)
        together: NDArray[np.int64] | None = None,
    ) -> Self:
        """Fit copies of all members and learn how to fuse them.

        Parameters
        ----------
        X
            Texts, or features if no member reads texts.
        y
            (n_rows, n_labels) label sets.
        label_texts, label_names
            One text for each label, and all its names, for members that read them. Without names, the text is one.
        rejected
            (n_rows, n_labels) labels that are known to be wrong, for members that learn from them; default none.
        progress
            Called with the name of a stage and the share done.
        runner
            Computes the training of members in parts, and of whole members, as tasks.
        budget
            Limits; members that do not fit into them are left out, and `report_` tells why. Its time is that of this
            method. The first member is always trained. With limits, labels are not judged by those beside them.
        together
            (n_rows,) numbers; rows with the same one are held out together. Default: each row by itself.
        """
        self.check_params()
        budget.check()
        members = [member.fresh() for member in as_members(self.members)]
        if self.takes == "texts":
            rows, Y = check_text_rows(X, y)
        else:
            features, Y = check_training_data(X, y)
            rows = features.to_scipy()
        report = _ignore if progress is None else progress
        self._fit_encoders(members, rows, report)
        inputs = Inputs.encode(members, self.encoder_, rows)
        self.n_rows_, self.n_labels_ = Y.shape
        self.fusion_, self.together_, self.held_out_, self.report_ = None, None, None, []
        splits = [] if self.fusion == "mean" else plan_splits(Y, self.holdout, self.seed, together)
        names = label_texts if label_names is None else label_names
        options: dict[str, Any] = {"label_texts": label_texts, "label_names": names, "progress": progress}
        options |= {"runner": runner, "rejected": None if rejected is None else check_labels(rejected, name="rejected")}
        training = MemberTraining(members, inputs, Y, options, report)
        used, fitted = training.places, members
        if splits:
            trial, fitted = self._rank_held_out(training, splits, budget)
            costs = self._costs(budget, fitted, rows, splits)
            report("fusion", 0.0)
            chosen, ranking = self._learn(trial, [members[place] for place in training.places], costs)
            used, fitted = [training.places[one] for one in chosen], [fitted[one] for one in chosen]
            held = np.concatenate([split.held for split in splits])
            self.held_out_ = HeldOut(held, ranking, Y[held])
        self.members_ = list(fitted)
        if self.refit or len(splits) != 1:
            training.run_tasks({place: one.fresh().model for place, one in zip(used, fitted, strict=True)}, [], [None])
            for number, place in enumerate(used):
                report(f"{members[place].name}, all rows", number / len(used))
                self.members_[number] = training.fit_all(place, fitted[number])
            if self.together_ is not None:
                self.together_ = self.together_._replace(pairs=LabelPairs.of(Y))
        for member in self.members_:
            if hasattr(member.model, "forget_texts"):
                member.model.forget_texts()
        self._complete_report(training)
        self.label_counts_ = np.bincount(Y.indices, minlength=self.n_labels_).astype(np.int64)
        return self

    def calibrate(self, X: Any, y: Any) -> Self:
        """Learn the fusion of fitted members from rows that no member was trained on."""
        members = self._ready()
        rows, Y = check_text_rows(X, y) if self.takes == "texts" else (X, check_training_data(X, y)[1])
        inputs = Inputs.encode(members, self.encoder_, rows)
        counts = getattr(self, "label_counts_", np.zeros(self.n_labels_, dtype=np.int64))
        trial = self._trial(members, inputs, Y, counts)
        used, ranking = self._learn(trial, members)
        self.members_ = [members[place] for place in used]
        self.label_counts_ = counts
        self.held_out_ = HeldOut(np.arange(Y.shape[0]), ranking, Y)
        return self

    def rank(
        self,
        X: Any,
        k: int = 5,
        *,
        restrict: ArrayLike | LabelFilter | None = None,
        exclude: ArrayLike | LabelFilter | None = None,
    ) -> Ranking:
        """Return the `k` labels with the highest probability of each row.

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
        k = min(check_int(k, "k", low=1), self.n_labels_)
        allowed = allowed_labels(restrict, exclude, self.n_labels_)
        rows = list(X) if self.takes == "texts" else X
        inputs = Inputs.encode(members, self.encoder_, rows, parts=True)
        wanted = self._wanted(k)
        found = [member.rank(own, wanted, allowed) for member, own in zip(members, inputs.of, strict=True)]
        threads = check_threads(self.threads)
        cells, features = gather(found, self._counts(), inputs.lengths, threads)
        return cells.ranking(sigmoid(self._logits(features, cells)), k, threads)

    def predict(self, X: Any) -> sparse.csr_array:
        """Return the label sets: labels with a probability of at least 0.5."""
        return self.rank(X, k=KEPT).above(0.5).to_sets()

    def evidence(
        self,
        X: Any,
        label: int,
        k: int = 5,
        *,
        restrict: ArrayLike | LabelFilter | None = None,
        exclude: ArrayLike | LabelFilter | None = None,
    ) -> Evidence:
        """Return what each member found out about a label of one row, and adds to its log odds.

        Contributions are Shapley values: with the log odds of a label that no member finds (`base_logit_`) they add up
        to the label's log odds. A member that did not find the label adds nothing.

        Parameters
        ----------
        X
            One text, in a list, or one row of features.
        label
            Id of the label; it may be excluded.
        k, restrict, exclude
            As in the call of `rank` that is explained.
        """
        members = self._ready()
        check_int(label, "label", low=0, high=self.n_labels_ - 1)
        allowed = allowed_labels(restrict, exclude, self.n_labels_)
        if allowed is not None:
            allowed = allowed | LabelFilter.of([label], self.n_labels_)
        inputs = Inputs.encode(members, self.encoder_, list(X) if self.takes == "texts" else X)
        found = [member.rank(own, self._wanted(k), allowed) for member, own in zip(members, inputs.of, strict=True)]
        cells, features = gather(found, self._counts(), inputs.lengths)
        at, base = np.flatnonzero(cells.label == label), self.base_logit_  # one, or none
        own = features[at]
        added = shapley_values(own, self._logits, base) if own.size else [0.0] * len(members)
        log_odds, together, partner = float(self._logits(own)[0]) if own.size else base, None, None
        if self.together_ is not None:
            changed = float(self._logits(features, cells)[at[0]]) if own.size else base
            together, log_odds = changed - log_odds, changed
            partner = self.together_.partner(cells, features, cast(Fusion, self.fusion_).logits(features, 1), label)
        places = [np.flatnonzero(ranking.labels == label).tolist() for ranking in found]
        return Evidence(
            log_odds,
            base,
            [
                MemberEvidence(member, own, value, place[0] + 1 if place else None)
                for member, own, value, place in zip(members, inputs.of, added, places, strict=True)
            ],
            together,
            partner,
        )

    @property
    def base_logit_(self) -> float:
        """Log odds of a label that nothing is known of: labels per row, as a share of all labels."""
        counts = self._counts()
        share = (counts.sum() + 1) / ((max(1, self.n_rows_) + 1) * (counts.size + 1))
        return float(np.log(share / (1 - share)))

    def learned(self, X: Any, y: Any, rejected: Any = None, replaced: Sequence[int] = ()) -> Self:
        """Return this ensemble with more rows in the memory of its members; nothing is trained, and it stays as it is.

        Members that take rows at any time (`Neighbours`, `Centroids`) know them at once; the others with the next
        training.

        Parameters
        ----------
        X
            Texts, or features if no member reads texts.
        y, rejected
            (n_rows, n_labels) labels of each row, and labels that are known to be wrong for it.
        replaced
            Rows, numbered as in `Neighbours.remove_rows`, that no longer count.
        """
        members = self._ready()
        if not any(hasattr(member.model, "add_rows") for member in members):
            raise InputError(
                "learning at once needs a member that takes rows at any time",
                given=", ".join(member.name for member in members),
                hint="Train with quality balanced or best, or train again with the corrections.",
            )
        Y = check_labels(y, name="y")
        inputs = Inputs.encode(members, self.encoder_, list(X) if self.takes == "texts" else X)
        grown, gone = copy(self), np.array(replaced, dtype=np.int64)
        grown.members_ = [
            member._replace(model=_with_rows(member.model, own, Y, rejected, gone))
            if hasattr(member.model, "add_rows")
            else member
            for member, own in zip(members, inputs.of, strict=True)
        ]
        counts = np.bincount(Y.indices, minlength=self.n_labels_).astype(np.int64)
        grown.label_counts_, grown.n_rows_ = self._counts() + counts, self.n_rows_ + Y.shape[0]
        return grown

    def add_labels(
        self, label_texts: Sequence[str], label_names: Sequence[Sequence[str]] | None = None
    ) -> NDArray[np.int64]:
        """Add labels by one text and all names of each, as in `fit`, and return their ids.

        Members that read texts or names of labels find them at once.
        """
        names = [[text] for text in label_texts] if label_names is None else label_names
        members = self._ready()
        ids = np.arange(self.n_labels_, self.n_labels_ + len(label_texts))
        for member in members:
            if hasattr(member.model, "add_labels"):
                add_labels(member.model, label_texts, names)
            elif hasattr(member.model, "grow"):
                member.model.grow(self.n_labels_ + ids.size)
        self.label_counts_ = np.append(self._counts(), np.zeros(ids.size, dtype=np.int64))
        self.n_labels_ += ids.size
        return ids

    def update(self, X: Any, y: Any, old_X: Any = None, old_y: Any = None) -> list[str]:
        """Learn from new rows without training everything again; return the names of members that stay as they are.

        See `update_members` for what each kind of member does. The fusion stays, too. New labels must have been added
        by `add_labels`.

        Parameters
        ----------
        X, y
            New texts, or features if no member reads texts, and their (n_new, n_labels) label sets.
        old_X, old_y
            The rows of the last training, in the same form; default those that a member `Neighbours` has stored.
        """
        members, Y = self._ready(), sparse.csr_array(check_labels(y))
        Y.resize((Y.shape[0], self.n_labels_))
        old = EarlierRows(old_X, None if old_y is None else check_labels(old_y))
        texts = list(X) if self.takes == "texts" else X
        stay = update_members(members, self.encoder_, texts, Y, old, LabelUsage(self._counts(), self.n_rows_))
        if len(stay) == len(members):
            raise InputError("some member must be able to learn from new rows", given=", ".join(stay))
        self.label_counts_ = self._counts() + np.bincount(Y.indices, minlength=self.n_labels_)
        self.n_rows_ += Y.shape[0]
        return stay

    def settled(self) -> Self:
        """Return an unfitted copy whose members do not try again what they chose by trials."""
        members = [m.fresh() for m in self._ready()]
        pairs = [m.model if m.encoder is None else (m.encoder, m.model) for m in members]
        return type(self)(**{**self.get_params(deep=False), "members": pairs})

    def state(self) -> State:
        """Return the stored form: the members, each with its own."""
        members = self._ready()
        parts = {f"model_{place}": member.model.state() for place, member in enumerate(members)}
        parts |= {f"encoder_{i}": m.encoder.state() for i, m in enumerate(members) if m.encoder is not None}
        if self.encoder_ is not None:
            parts["encoder"] = self.encoder_.state()
        if self.fusion_ is not None:
            parts["fusion"] = self.fusion_.state()
        if self.together_ is not None:
            parts["together"] = self.together_.state()
        init = {
            name: getattr(self, name)
            for name in ("fusion", "fusion_trees", "candidates", "holdout", "prune", "refit", "seed", "threads")
        }
        params = {
            "init": init,
            "names": [member.name for member in members],
            "report": [list(one) for one in getattr(self, "report_", [])],
            "n_labels": self.n_labels_,
            "n_rows": self.n_rows_,
        }
        return State("Ensemble", params=params, arrays={"label_counts": self._counts()}, parts=parts)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the ensemble; its members are fitted."""
        names = [str(name) for name in state.param("names", list)]
        members = []
        for place, name in enumerate(names):
            part = f"encoder_{place}"
            own = restore(state.part(part)) if part in state.parts else None
            members.append(Member(name, own, restore(state.part(f"model_{place}"))))
        encoder = restore(state.part("encoder")) if "encoder" in state.parts else None
        given = [m.model if m.encoder is None else (m.encoder, m.model) for m in members]
        ensemble = cls(given, encoder=encoder, **state.param("init", dict))
        ensemble.members_, ensemble.encoder_ = members, encoder
        ensemble.n_labels_ = check_int(state.param("n_labels", int), "n_labels", low=1)
        ensemble.n_rows_ = check_int(state.param("n_rows", int), "n_rows", low=0)
        ensemble.label_counts_ = state.array("label_counts", np.int64, (ensemble.n_labels_,))
        if np.any(ensemble.label_counts_ < 0) or any(m.model.n_labels_ > ensemble.n_labels_ for m in members):
            raise InputError(
                "the members of a stored ensemble must have no other labels, and counts must not be negative"
            )
        ensemble.report_ = [MemberReport(*one) for one in state.param("report", list)]
        if "fusion" in state.parts:
            ensemble.fusion_ = restore_fusion(state.part("fusion"), PER_MEMBER * len(names) + SHARED)
        if "together" in state.parts:
            ensemble.together_ = LabelsTogether.from_state(state.part("together"), len(names))
        return ensemble

    def check_params(self) -> None:
        """Raise `InputError` for a parameter with an invalid value."""
        for member in as_members(self.members):
            check = getattr(member.model, "check_params", None)
            if check is not None:
                check()
        check_choice(self.fusion, "fusion", _FUSIONS)
        check_int(self.fusion_trees, "fusion_trees", low=1)
        check_int(self.candidates, "candidates", low=1)
        check_float(self.holdout, "holdout", low=0.0, high=0.9)
        check_int(self.seed, "seed", low=0)
        check_threads(self.threads)

    def _fit_encoders(self, members: list[Member], rows: Any, report: Progress) -> None:
        self.encoder_ = None
        if self.takes != "texts":
            return
        report("features", 0.0)
        if self.encoder is not None or not all(member.takes_texts for member in members):
            self.encoder_ = _fresh(TfidfEncoder() if self.encoder is None else self.encoder).fit(rows)
        for place, member in enumerate(members):
            if member.encoder is not None:
                members[place] = member._replace(encoder=_fresh(member.encoder).fit(rows))

    def _rank_held_out(
        self, training: MemberTraining, splits: list[Split], budget: Budget
    ) -> tuple[Trial, list[Member]]:
        """Fit members without the held-out rows of each split; return these rows' candidates and the members."""
        Y, trials, fitted = training.Y, [], training.members
        n_rounds = len(splits) + (self.refit or len(splits) != 1)
        clock = Clock(budget.seconds, n_rounds, sum(split.held.size for split in splits))
        if budget.seconds is None:
            fresh = {place: training.members[place].fresh().model for place in training.places}
            training.run_tasks(fresh, splits, list(range(len(splits))))
        for number, split in enumerate(splits):
            fitted = training.fit_without(split, clock, number / len(splits), number)
            # Counts as they would be with all rows, but for labels that only held-out rows have.
            counts = np.bincount(Y[split.train].indices, minlength=self.n_labels_)
            scaled = np.round(counts * (Y.shape[0] / split.train.size)).astype(np.int64)
            allowed = _known_beforehand(counts, Y)
            held = training.inputs.members(training.places).some(split.held)
            trial = self._trial(fitted, held, Y[split.held], scaled, allowed)
            if budget == Budget():  # within limits, members come first
                trial = trial._replace(pairs=((split.held.size, LabelPairs.of(Y[split.train])),))
            trials.append(trial)
        return Trial.join(trials), fitted

    def _costs(self, budget: Budget, fitted: list[Member], rows: Any, splits: Sequence[Split]) -> Costs | None:
        """Return what members, held-out rows and fusion cost, if a budget limits it."""
        if budget.size is None and budget.latency is None:
            return None
        costs = measure_costs(budget, fitted, self.encoder_, rows, self.n_rows_ / splits[-1].train.size)
        kept = KEPT * sum(split.held.size for split in splits)
        shared = costs.shared_bytes + _CANDIDATE_BYTES * kept + _TREE_BYTES * self.fusion_trees
        return costs._replace(shared_bytes=shared)

    def _complete_report(self, training: MemberTraining) -> None:
        """Add training times, and the members that could not be trained in the time given."""
        known = {one.name: one for one in self.report_}
        self.report_ = [
            known.get(member.name, MemberReport(member.name, 0.0, 0.0, False, 0.0, reason="time"))._replace(
                seconds=float(seconds)
            )
            for member, seconds in zip(training.members, training.seconds, strict=True)
            if known
        ] + [one for one in self.report_ if one.name == TOGETHER]

    def _trial(
        self,
        members: list[Member],
        inputs: Inputs,
        Y: sparse.csr_array,
        counts: NDArray[np.int64],
        allowed: LabelFilter | None = None,
    ) -> Trial:
        pairs = zip(members, inputs.of, strict=True)
        found = [member.rank(own, self.candidates, allowed) for member, own in pairs]
        cells, features = gather(found, counts, inputs.lengths, check_threads(self.threads))
        return Trial(cells, features, cells.right(Y), np.diff(Y.indptr))

    def _learn(self, trial: Trial, members: list[Member], costs: Costs | None = None) -> tuple[list[int], Ranking]:
        """Choose members and fusion on held-out rows; return the members and the rows' probabilities."""
        kinds = ("boosted", "logistic") if self.fusion == "auto" else (self.fusion,)
        names = [member.name for member in members]
        found = choose_members(trial, names, kinds, prune=self.prune, n_trees=self.fusion_trees, costs=costs)
        self.fusion_, self.together_, self.report_ = found.fusion, None, found.report
        logits = found.logits
        if self.fusion == "auto" and trial.pairs:
            self.together_, logits, report = learn_together(trial, found.used, logits)
            self.report_ = [*self.report_, report]
        return found.used, trial.candidates.ranking(sigmoid(logits), KEPT)

    def _logits(self, features: NDArray[np.float32], cells: Candidates | None = None) -> Floats:
        """Return log odds by the features; with all candidates of each row, also by what these tell of each other."""
        if self.fusion_ is None:
            scaled = np.nan_to_num(features[:, PER_MEMBER - 1 : -SHARED : PER_MEMBER].astype(np.float64))
            mean = np.clip(scaled, 0, 1).mean(axis=1) * 0.9999 + 0.00005
            return np.asarray(np.log(mean / (1 - mean)))
        threads = check_threads(self.threads)
        found = self.fusion_.logits(features, threads)
        if self.together_ is not None and cells is not None:
            found = self.together_.change(cells, features, found, threads)
        for place, member in enumerate(self.members_):
            if isinstance(member.model, NameMatcher):  # the name is the whole text
                certain = features[:, PER_MEMBER * place] >= CERTAIN
                found[certain] = np.maximum(found[certain], np.log(CERTAIN / (1 - CERTAIN)))
        return found

    def _wanted(self, k: int) -> int:
        """Return how many labels each member contributes: as while learning, unless more labels are asked for."""
        return self.candidates if k <= KEPT else max(k, self.candidates)

    def _counts(self) -> NDArray[np.int64]:
        return getattr(self, "label_counts_", np.zeros(self.n_labels_, dtype=np.int64))

    def _ready(self) -> list[Member]:
        """Return the fitted members: those of `fit`, or those that were given fitted."""
        if hasattr(self, "members_"):
            return self.members_
        self.check_params()
        members = as_members(self.members)
        if not all(member.is_fitted for member in members):
            raise NotFittedError("this Ensemble must be fitted first", hint="Call fit(X, y), or give fitted members.")
        sizes = [int(member.model.n_labels_) for member in members]
        if len(set(sizes)) > 1:
            raise InputError("members must have the same labels", given=f"{sizes} labels")
        if self.takes == "texts" and not all(member.takes_texts for member in members):
            raise InputError(
                "beside a member that reads texts, a fitted model that reads features needs its encoder",
                given="a fitted model without one",
                hint="Give the pair (encoder, model), or a Tagger.",
            )
        self.n_labels_ = sizes[0]
        self.members_ = members
        return members

    def _check_fitted(self) -> None:
        self._ready()


def _known_beforehand(counts: NDArray[np.int64], Y: sparse.csr_array) -> LabelFilter | None:
    """Return which labels would be known without the held-out rows, given the other rows of each; None for all."""
    only_held_out = (np.bincount(Y.indices, minlength=counts.size) > 0) & (counts == 0)
    return LabelFilter(~only_held_out) if only_held_out.any() else None


def _with_rows(model: Any, rows: Any, Y: sparse.csr_array, rejected: Any, gone: NDArray[np.int64]) -> Any:
    """Return a copy of a model that knows more rows, without those that are gone where it can forget."""
    grown = copy(model).add_rows(rows, Y, rejected)
    return grown.remove_rows(gone) if gone.size and hasattr(grown, "remove_rows") else grown


def _fresh(encoder: Any) -> Any:
    return type(encoder)(**encoder.get_params(deep=False)) if hasattr(encoder, "get_params") else encoder


def _ignore(stage: str, share: float) -> None:
    """Take a report of progress and do nothing."""
