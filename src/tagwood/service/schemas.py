"""What the service takes and answers, as pydantic models: suggestions, explanations, feedback, problems.

In: JSON bodies. Out: checked values; the OpenAPI document is made from them. What the other pages show (labels, tree,
model, groups) stands in `schemas_browse`. Limits that the operator sets are added by `openapi` and checked by `limits`.

Decisions: numbers are numbers (``"5"`` is refused, ``5.0`` is 5); unknown fields are refused, so that a typing error is
not silently ignored; a label is named by its id (a number) or by its name or URI (a text).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

# Two decimals at most: every promise is fitted once and remembered, so there must not be endlessly many.
PROMISE_PATTERN = r"^(f1|row-f1|(precision|recall)>=(0?\.(0[1-9]|[1-9][0-9]?)|[1-9][0-9]?%))$"


def _whole(value: Any) -> Any:
    """Take 5.0 for 5, as JSON Schema does."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Whole = BeforeValidator(_whole)
Count = Annotated[int, Field(ge=1), _Whole]
Similar = Annotated[int, Field(ge=0, le=20), _Whole]
LabelId = Annotated[int, Field(ge=0, le=2**31 - 1), _Whole]
RowNumber = Annotated[int, Field(ge=0, le=2**53), _Whole]
LabelKey = Annotated[
    LabelId | Annotated[str, Field(min_length=1, max_length=2000)],
    Field(description="A label: its id (a number), or its name or URI (a text).", examples=["oak", 12]),
]
Language = Annotated[
    str | None,
    Field(max_length=35, description="Language of the label names; unknown ones give the main names."),
]


class Model(BaseModel):
    """Base of all: strict, no unknown fields, no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class Problem(BaseModel):
    """An error, as RFC 9457 has it (``application/problem+json``)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:tagwood:problem:invalid-request",
                    "title": "The request does not fit",
                    "status": 422,
                    "detail": "k: Input should be greater than or equal to 1",
                    "errors": [{"pointer": "#/k", "detail": "Input should be greater than or equal to 1"}],
                    "request_id": "0b6f0c1e5d0f4b6e",
                }
            ]
        }
    )

    type: str = Field(description="What kind of problem, for programs.")
    title: str = Field(description="What kind of problem, for people.")
    status: int
    detail: str = Field(description="What went wrong here, and what to do.")
    errors: list[ProblemPart] = Field(default=[], description="Where in the request, if it is known.")
    request_id: str = Field(description="As in the log and in the header X-Request-ID.")


class ProblemPart(BaseModel):
    """One fault of a request."""

    pointer: str = Field(description="JSON pointer into the body, or the parameter.", examples=["#/texts/3"])
    detail: str


class LabelBrief(BaseModel):
    """A label in a list."""

    id: int
    name: str
    uri: str | None
    rows: int = Field(description="Number of training texts with this label.")


class SuggestRequest(Model):
    """Ask for labels of one text or many."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"texts": "bark and leaves of old oaks", "k": 5},
                {
                    "texts": ["salt water", "moons of Jupiter"],
                    "promise": "precision>=0.9",
                    "exclude": ["trees"],
                },
            ]
        }
    )

    texts: str | list[str] = Field(
        description="One text, or a list of texts.", examples=["bark and leaves of old oaks"]
    )
    k: Count = Field(default=5, description="Most labels per text; a promise decides the number itself.")
    threshold: float | None = Field(default=None, ge=0, le=1, description="Least score of a label.")
    promise: str | None = Field(
        default=None,
        pattern=PROMISE_PATTERN,
        max_length=40,
        description="What the label sets must keep on average, instead of k: 'precision>=0.9', 'recall>=0.8', 'f1'. "
        "Texts for which it cannot be kept have 'review' set. Needs a model with probabilities (else 409).",
        examples=["precision>=0.9"],
    )
    restrict: list[LabelKey] | None = Field(default=None, description="Only these labels may be returned.")
    exclude: list[LabelKey] | None = Field(default=None, description="These labels are not returned.")
    language: Language = None


class SuggestedLabel(BaseModel):
    """A label with its score."""

    id: int
    name: str
    uri: str | None
    score: float = Field(description="A probability if the answer says 'calibrated', else only an order.")


class SuggestedSet(BaseModel):
    """The labels of one text, best first."""

    labels: list[SuggestedLabel]
    review: bool = Field(description="The promise cannot be kept for this text: a person should look.")


class SuggestResponse(BaseModel):
    """One entry in `results` for each text, in order."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "results": [
                        {
                            "labels": [{"id": 0, "name": "trees", "uri": None, "score": 0.97}],
                            "review": False,
                        }
                    ],
                    "calibrated": True,
                    "model": "9f2c41d07ab3",
                }
            ]
        }
    )

    results: list[SuggestedSet]
    calibrated: bool = Field(description="Whether scores are probabilities.")
    model: str = Field(description="Short hash of the model that answered; it changes with a new model.")


class ExplainRequest(Model):
    """Ask why a label was suggested for a text, or why not."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": "bark and leaves of old oaks", "label": "trees", "k": 5}]}
    )

    text: str
    label: LabelKey
    k: Count = Field(default=5, description="As in the question to /v1/suggest that is explained.")
    threshold: float | None = Field(default=None, ge=0, le=1)
    language: Language = None
    similar: Similar = Field(default=3, description="Number of similar training texts.")


class WordWeight(BaseModel):
    """A word or n-gram and what it adds to the label's score."""

    word: str
    weight: float


class Segment(BaseModel):
    """A piece of the asked text; all pieces in order are the text."""

    text: str
    weight: float | None = Field(description="What this word adds for (+) or against (-); null: nothing.")


class ExplainStep(BaseModel):
    """One decision on the path through the tree; `bias` and the words add up to `margin`."""

    node: int
    leads_to: str
    labels_below: int
    margin: float
    bias: float
    probability: float
    words: list[WordWeight]
    top_words: list[str] = Field(description="What speaks most for this decision in any text.")


class ExplainPath(BaseModel):
    """The path to the label in one tree, root first."""

    tree: int
    score: float
    steps: list[ExplainStep]


class SimilarText(BaseModel):
    """A training text like the one asked about."""

    text: str
    labels: list[str]
    similarity: float


class Verdict(BaseModel):
    """What became of the label."""

    reason: str = Field(
        description="suggested, masked, never in training, below the threshold, beyond the limit, or pruned",
        examples=["suggested"],
    )
    words: str = Field(description="The same as a sentence.")
    node: int | None
    competitor: int | str | None


class ExplainResponse(BaseModel):
    """Why a label was suggested, or where it was lost."""

    label: int
    name: str
    uri: str | None
    suggested: bool
    verdict: Verdict
    score: float | None = Field(description="As /v1/suggest gives it; null where the search did not find it.")
    model_score: float | None
    place: int | None
    words: list[WordWeight] = Field(description="Summed over all paths, strongest for the label first.")
    segments: list[Segment] = Field(description="The text, cut so that words can be highlighted.")
    paths: list[ExplainPath]
    similar: list[SimilarText]
    model: str


class FeedbackRequest(Model):
    """What a person thinks of the labels of a text."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "text": "bark and leaves of old oaks",
                    "accepted": ["trees"],
                    "rejected": [2],
                    "added": ["leaves of autumn"],
                    "note": "second edition",
                }
            ]
        }
    )

    text: str
    accepted: list[LabelKey] = Field(default=[], description="Suggested labels that are right.")
    rejected: list[LabelKey] = Field(default=[], description="Suggested labels that are wrong.")
    added: list[LabelKey] = Field(
        default=[],
        description="Right labels that were not suggested; a text that names no known label is kept as a proposal.",
    )
    note: str | None = Field(default=None, max_length=2000)
    id: str | None = Field(default=None, max_length=200, description="The document's own id, if it has one.")


class Stored(BaseModel):
    """The answer when something was written to disk."""

    id: str = Field(description="Id of the stored record.", examples=["20260301T101500-5f2c9a"])
    records: int = Field(description="Number of lines that were written.")


class Health(BaseModel):
    """The process runs."""

    status: str = Field(examples=["ok"])


class Ready(BaseModel):
    """A model is loaded and answers."""

    status: str = Field(examples=["ready"])
    model: str


Problem.model_rebuild()


# SECTION service.schemas_browse
# What the service answers about labels, the label tree, the model and groups, as pydantic models. See `schemas`.


class FoundLabel(LabelBrief):
    """A label that a search found."""

    masked: bool = Field(description="No longer suggested.")
    match: str = Field(
        description="exact, prefix, word (a later word starts so), fuzzy, or frequent (no query)."
    )
    matched: str = Field(description="The name that matched; it may be one in another language.")


class LabelsResponse(BaseModel):
    """Labels that match, best first."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "labels": [
                        {
                            "id": 0,
                            "name": "trees",
                            "uri": None,
                            "rows": 377,
                            "masked": False,
                            "match": "prefix",
                            "matched": "trees",
                        }
                    ]
                }
            ]
        }
    )

    labels: list[FoundLabel]


class ExampleText(BaseModel):
    """A training text and the names of its labels."""

    text: str
    labels: list[str]


class Sense(BaseModel):
    """One place of the label in a tree; a label that means several things may have several."""

    tree: int
    leaf: int
    path: list[int] = Field(description="Nodes from the root to the leaf, for /v1/tree.")
    words: list[str] = Field(description="What speaks most for the label here.")
    beside: list[LabelBrief] = Field(description="Most frequent other labels of the leaf.")
    examples: list[ExampleText] = Field(description="Training texts of this sense, if known.")


class Neighbour(LabelBrief):
    """A label whose texts are alike."""

    similarity: float


class LabelCard(BaseModel):
    """Everything about a label."""

    id: int
    name: str
    uri: str | None
    names: dict[str, str] = Field(description="Names by language.")
    rows: int = Field(description="Number of training texts with this label.")
    share: float = Field(description="The same as a share of all training texts.")
    masked: bool
    description: str | None = Field(description="Where the label has no training texts: what it is known by.")
    senses: list[Sense]
    neighbours: list[Neighbour]
    examples: list[ExampleText]


class TreeNode(BaseModel):
    """A node of the label tree."""

    node: int
    parent: int | None
    depth: int
    leaf: bool
    children: int = Field(description="Number of children.")
    labels: int = Field(description="Number of labels below (copies counted).")
    rows: int = Field(description="Sum of the training texts of the labels below: the node's width.")
    largest: list[LabelBrief] = Field(description="Most frequent labels below.")


class TreeResponse(BaseModel):
    """A node, and its descendants down to the asked depth, breadth-first."""

    tree: int
    trees: int = Field(description="Number of trees of the model.")
    max_depth: int
    path: list[TreeNode] = Field(description="From the root to the asked node, which is not in it.")
    nodes: list[TreeNode] = Field(description="The asked node first.")
    complete: bool = Field(description="False where nodes were left out because there are too many.")
    labels: list[LabelBrief] = Field(
        description="If the asked node is a leaf: its labels, most frequent first."
    )


class Bin(BaseModel):
    """One point of the reliability curve."""

    predicted: float = Field(description="Mean probability of the labels in this bin.")
    observed: float = Field(description="Share of them that are right.")
    count: int


class SetPoint(BaseModel):
    """What label sets are like at one threshold."""

    threshold: float
    size: float = Field(description="Mean number of labels per text.")
    precision: float | None
    recall: float
    f1: float


class PromiseSet(BaseModel):
    """What a promise means for this model: threshold and what happens on the held-out rows."""

    promise: str
    kept: bool
    threshold: float
    size: float
    precision: float | None
    recall: float
    review: float = Field(description="Share of texts that a person should look at.")


class Calibration(BaseModel):
    """How good the probabilities are, on rows that the calibrated model did not see."""

    rows: int
    expected_error: float = Field(description="Mean distance between predicted and observed (ECE).")
    reliability: list[Bin]
    sets: list[SetPoint]
    promises: list[PromiseSet] = Field(description="From few and sure to many.")


class ParetoPoint(BaseModel):
    """One setting of the tree's shape that was tried."""

    lam: float
    quality: float
    cost: float
    chosen: bool


class Pareto(BaseModel):
    """The curve of λ, if it was tuned."""

    quality: str = Field(description="What quality means, e.g. P@1.")
    cost: str = Field(description="What cost means, e.g. milliseconds.")
    points: list[ParetoPoint]


class LimitsOf(BaseModel):
    """What a request may hold."""

    body_bytes: int
    text_chars: int
    texts: int
    k: int
    labels: int
    concurrent: int


class ModelResponse(BaseModel):
    """What the model is, and what the service lets you ask."""

    model: str = Field(description="Short hash of the model.")
    kind: str = Field(examples=["LinearTree"])
    passport: dict[str, Any] = Field(
        description="created, versions, seed, training seconds, fingerprint, notes, bytes"
    )
    labels: int
    labels_in_training: int
    labels_masked: int
    rows: int = Field(description="Training texts.")
    languages: list[str]
    tree: dict[str, Any] | None = Field(description="Sizes of the label tree.")
    recipe: str | None = Field(description="All settings, as TOML for `tagwood train --recipe`.")
    metrics: dict[str, float] | None = Field(description="On the held-out rows, between 0 and 1.")
    calibration: Calibration | None
    pareto: Pareto | None
    missing: dict[str, str] = Field(description="Why metrics, calibration or pareto are null.")
    largest: list[LabelBrief]
    groups: int | None = Field(description="Number of groups to review; null if not trained from groups.")
    feedback: bool = Field(description="Whether feedback is stored.")
    limits: LimitsOf


class GroupBrief(BaseModel):
    """A group in a list."""

    group: int
    name: str
    samples: int
    labels: int
    confidence: float = Field(description="Mean confidence of the imputed labels; look at low ones first.")
    corrected: bool


class GroupsResponse(BaseModel):
    """Groups, least confident first."""

    total: int = Field(description="Groups that match.")
    in_training: int = Field(
        description="Groups that the model was trained from; only some are kept for review."
    )
    groups: list[GroupBrief]


class ImputedLabel(LabelBrief):
    """A label that was worked out for a sample."""

    confidence: float = Field(
        description="The sample's share of the label in its group: 1 is a clear decision."
    )
    similarity: float


class GroupSample(BaseModel):
    """One sample of a group."""

    row: int = Field(description="Row in the training data.")
    text: str
    labels: list[ImputedLabel]
    corrected: bool = Field(description="The labels are those of a person.")


class GroupResponse(BaseModel):
    """A group, its labels and its samples."""

    group: int
    name: str
    labels: list[LabelBrief]
    samples: list[GroupSample]


class SampleLabels(Model):
    """The right labels of one sample."""

    row: RowNumber = Field(description="Row in the training data, as /v1/groups/{group} gives it.")
    labels: list[LabelKey]


class CorrectionRequest(Model):
    """The right labels of some samples of a group; accepting means sending the imputed labels back."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"samples": [{"row": 4, "labels": ["trees"]}]}]}
    )

    samples: list[SampleLabels] = Field(min_length=1, max_length=1000)
    note: str | None = Field(default=None, max_length=2000)
