"""Bodies of requests and answers, as pydantic models. In: JSON. Out: checked values and the OpenAPI document.

Answers about labels and the tree (`LabelCard`, `TreeView`) and the parts of explanations are values of the Tagger.
Limits that the operator sets are written into the document by `app` and checked by the endpoints.

Decisions: numbers must be JSON numbers (``"5"`` is refused, ``5.0`` is accepted as 5). Unknown fields are refused, so
that a typing error is not silently ignored. A label is given by its id (a number), or by its name or URI (a string).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from tagwood.service.settings import RequestLimits
from tagwood.tagger.explanation import MemberReason, Path, Similar, Verdict, Word
from tagwood.tagger.stored import LabelBrief

# At most two decimals: the rule of every promise is fitted once and kept, so their number must be limited.
_PROMISE = r"^(f1|row-f1|(precision|recall)>=(0?\.(0[1-9]|[1-9][0-9]?)|[1-9][0-9]?%))$"


class Whole:
    """Annotation of integers that also accepts 5.0 as 5, as JSON Schema does."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        integer = handler(source)
        from_float: list[CoreSchema] = [
            core_schema.float_schema(strict=True, multiple_of=1),
            {**integer, "strict": False},
        ]
        return core_schema.union_schema([integer, core_schema.chain_schema(from_float)])

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(schema["choices"][0])


Count = Annotated[int, Field(ge=1), Whole()]
_LARGEST_ID = 9_200_000_000_000_000_000  # about 2 ** 63: OpenAPI has limits as rounded numbers
LabelId = Annotated[int, Field(ge=-_LARGEST_ID, le=_LARGEST_ID), Whole()]
RowNumber = Annotated[int, Field(ge=0, le=2**53), Whole()]
LabelKey = Annotated[
    LabelId | Annotated[str, Field(min_length=1, max_length=2000)],
    Field(description="A label: its id (a number), or its name or URI (a string).", examples=["oak", 12]),
]
FilterTerm = Annotated[str, Field(pattern=r"^~?[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Language = Annotated[
    str | None,
    Field(max_length=35, description="Language of the label names; default and fallback: the main names."),
]


TextFields = Annotated[dict[Annotated[str, Field(max_length=200)], str], Field(max_length=100)]


AnsweringModel = Annotated[
    str | None,
    Field(
        max_length=64,
        description="'model' of the answer that the labels are from; send it with ids that are rows of the label "
        "table. A model that is no longer in use is refused (409), instead of taking the ids for other labels.",
    ),
]


def _example(*one_of: str, **values: Any) -> ConfigDict:
    """Return the settings of a body with an example; exactly one of the fields `one_of` is required."""
    required: list[Any] = [{"required": [name]} for name in one_of]
    return ConfigDict(json_schema_extra={"examples": [values]} | ({"oneOf": required} if required else {}))


def _optional(**about: Any) -> Any:
    """Return a field that may be missing, but not null."""

    def without_default(schema: dict[str, Any]) -> None:
        del schema["default"]

    return Field(default=None, json_schema_extra=without_default, **about)


class RequestBody(BaseModel):
    """Base of all request bodies: strict, no unknown fields, no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class ProblemField(BaseModel):
    """One invalid field of a request."""

    pointer: str = Field(description="JSON pointer into the body, or the parameter.", examples=["#/texts/3"])
    detail: str


class ProblemDetails(BaseModel):
    """An error in the form of RFC 9457 (``application/problem+json``)."""

    model_config = _example(
        type="urn:tagwood:problem:invalid-request",
        title="The request is not valid",
        status=422,
        detail="k: must be at least 1.",
        errors=[{"pointer": "#/k", "detail": "must be at least 1."}],
        request_id="0b6f0c1e5d0f4b6e",
    )

    type: str = Field(description="Kind of problem, for programs.")
    title: str = Field(description="Kind of problem, for people.")
    status: int
    detail: str = Field(description="What is wrong with this request, and what to do.")
    errors: list[ProblemField] = Field(default=[], description="The invalid fields, if known.")
    request_id: str = Field(description="Id of the request in the log and in the header X-Request-ID.")


class SuggestRequest(RequestBody):
    """Suggest labels for one or more texts."""

    model_config = _example(
        "texts", "fields", texts=["salt water", "moons of Jupiter"], promise="precision>=0.9", exclude=["trees"]
    )

    texts: str | list[str] = _optional(examples=["bark and leaves of old oaks"])
    fields: TextFields | list[TextFields] = _optional(
        description="In place of texts: the named fields of one or more texts, for models that were trained with them "
        "('fields' of the model). Missing ones are empty.",
        examples=[{"title": "Old oaks", "abstract": "Bark and leaves."}],
    )
    k: Count = Field(default=5, description="Largest number of labels per text; ignored with a promise.")
    threshold: float | None = Field(default=None, ge=0, le=1, description="Lowest score of a label.")
    promise: str | None = Field(
        default=None,
        pattern=_PROMISE,
        max_length=40,
        description="What the label sets must reach on average, instead of k: 'precision>=0.9', 'recall>=0.8', "
        "'f1'. Texts for which it cannot be reached have 'review' set. Needs a calibrated model (else 409).",
        examples=["precision>=0.9"],
    )
    restrict: list[LabelKey] | None = Field(default=None, description="Return only these labels.")
    restrict_branch: list[LabelKey] | None = Field(
        default=None,
        description="Return only these labels and all that are narrower in the vocabulary; adds to 'restrict'.",
    )
    exclude: list[LabelKey] | None = Field(default=None, description="Do not return these labels.")
    filters: list[FilterTerm] | None = Field(
        default=None,
        min_length=1,
        max_length=16,
        description="Return only labels that are in all these named filters; ~NAME stands for labels outside one.",
        examples=[["in-stock", "~adult"]],
    )
    language: Language = None


class FilterRequest(RequestBody):
    """A set of labels to store under a name."""

    model_config = _example(labels=["oak", "ash"], unknown="ignore")

    labels: list[LabelKey] = Field(description="The labels of the set; it may be empty.")
    unknown: Literal["error", "ignore"] = Field(
        default="error",
        description="Whether labels that the model does not know are an error, or left out and counted.",
    )


class FilterSummary(BaseModel):
    """A stored filter."""

    name: str
    version: int = Field(description="1, 2, ...; a deleted filter begins again.")
    created: str = Field(description="Time of this version.")
    labels: int = Field(description="Number of labels that were sent.")
    damaged: bool = Field(
        default=False,
        description="Whether its file is damaged, and lost facts 0 or empty; PUT replaces it, DELETE removes it.",
    )


class FilterResponse(FilterSummary):
    """A stored filter and what the model knows of it."""

    known: int = Field(description="Labels of the model that are in the set.")
    unknown: int = Field(description="Labels that the model does not know.")


class FiltersResponse(BaseModel):
    """All filters."""

    filters: list[FilterSummary]


class SuggestedLabel(BaseModel):
    """A label with its score."""

    id: int
    name: str
    uri: str | None
    score: float = Field(description="A probability if 'calibrated', else it only orders labels.")


class SuggestedSet(BaseModel):
    """The labels of one text, best first."""

    labels: list[SuggestedLabel]
    review: bool = Field(description="The promise cannot be reached for this text; it needs manual review.")


class SuggestResponse(BaseModel):
    """One entry in `results` per text, in order."""

    model_config = _example(
        results=[{"labels": [{"id": 0, "name": "trees", "uri": None, "score": 0.97}], "review": False}],
        calibrated=True,
        model="9f2c41d07ab3",
    )

    results: list[SuggestedSet]
    calibrated: bool = Field(description="Whether scores are probabilities.")
    model: str = Field(description="Short hash of the model that answered; it changes with a new model.")


class ExplainRequest(RequestBody):
    """Explain why a label was suggested for a text, or why it was not."""

    model_config = _example("text", "fields", text="bark and leaves of old oaks", label="trees", k=5)

    text: str = _optional()
    fields: TextFields = _optional(description="In place of text: its named fields.")
    label: LabelKey
    k: Count = Field(default=5, description="As in the request to /v1/suggest that is explained.")
    threshold: float | None = Field(default=None, ge=0, le=1)
    language: Language = None
    similar: Annotated[int, Field(ge=0, le=20, description="Number of similar training texts."), Whole()] = 3
    model: AnsweringModel = None


class TextSegment(BaseModel):
    """A piece of the text; all pieces in order are the text."""

    text: str
    weight: float | None = Field(description="Weight of this word for (+) or against (-) the label, or null.")


class ExplainResponse(BaseModel):
    """Why a label was suggested, or at which step it was lost."""

    label: int
    name: str
    uri: str | None
    suggested: bool
    verdict: Verdict
    score: float | None = Field(description="As in /v1/suggest; null if the search did not find the label.")
    model_score: float | None
    place: int | None
    members: list[MemberReason] = Field(description="Members of an ensemble; empty for other models.")
    base: float | None = Field(
        description="Log odds of a label that no member finds; with their contributions it adds up to 'log_odds'."
    )
    log_odds: float | None = Field(description="Of this label.")
    words: list[Word] = Field(description="On all paths and in the label's name, largest weight first.")
    segments: list[TextSegment] = Field(description="The text in pieces, for highlighting words.")
    paths: list[Path]
    similar: list[Similar]
    model: str


class FeedbackRequest(RequestBody):
    """A person's decisions on the labels of a text."""

    model_config = _example(
        "text",
        "fields",
        text="bark and leaves of old oaks",
        accepted=["trees"],
        rejected=[2],
        added=["leaves of autumn"],
    )

    text: str = _optional()
    fields: TextFields = _optional(description="In place of text: its named fields.")
    accepted: list[LabelKey] = Field(default=[], description="Suggested labels that are right.")
    rejected: list[LabelKey] = Field(default=[], description="Suggested labels that are wrong.")
    added: list[LabelKey] = Field(default=[], description="Not suggested; an unknown name is a proposal.")
    untouched: list[LabelKey] = Field(default=[], description="Suggestions that were seen and not decided.")
    by: str | None = Field(default=None, max_length=200, description="Who decided; disagreement is kept.")
    note: str | None = Field(default=None, max_length=2000)
    id: str | None = Field(default=None, max_length=200, description="Your id of the document.")
    model: AnsweringModel = None


class LearnRequest(RequestBody):
    """Decisions of people that the model is to learn at once."""

    model_config = _example(records=[{"text": "bark and leaves of old oaks", "accepted": ["trees"]}])

    records: list[FeedbackRequest] = Field(min_length=1, description="As in /v1/feedback; at most 'texts' of them.")
    force: bool = Field(default=False, description="Learn even if the model becomes worse on held-out texts.")


class MeasuredLearning(BaseModel):
    """nDCG@5 on texts that people decided about, before they were learned."""

    n_rows: int
    before: float
    after: float
    worse: bool


class LearnResponse(BaseModel):
    """What was learned; it is on disk, and answers of all workers from now on take it into account."""

    learned: int = Field(description="Texts that were learned.")
    left_out: int = Field(description="Texts without a label of the vocabulary.")
    measured: MeasuredLearning | None = Field(description="Null while there are too few texts to measure.")
    model: str


class StoredRecords(BaseModel):
    """The answer when records were written to disk."""

    id: str = Field(description="Id of the first record.", examples=["20260301T101500-5f2c9a"])
    records: int = Field(description="Number of lines that were written.")


class HealthResponse(BaseModel):
    """The process runs."""

    status: str = Field(examples=["ok"])


class ReadyResponse(BaseModel):
    """A model is loaded."""

    status: str = Field(examples=["ready"])
    model: str


@dataclass(frozen=True)
class FoundLabel(LabelBrief):
    """A label found by a search."""

    masked: Annotated[bool, Field(description="The label is no longer suggested.")]
    match: Annotated[str, Field(description="exact, prefix, word, fuzzy, or frequent (empty query).")]
    matched: Annotated[str, Field(description="The name that matched; it may be in another language.")]


class LabelsResponse(BaseModel):
    """Labels that match, best first."""

    labels: list[FoundLabel]


class ReliabilityBin(BaseModel):
    """One point of the reliability curve."""

    predicted: float = Field(description="Mean probability of the labels in this bin.")
    observed: float = Field(description="Share of them that are right.")
    count: int


class SetPoint(BaseModel):
    """Label sets at one threshold, on the held-out rows."""

    threshold: float
    size: float = Field(description="Mean number of labels per text.")
    precision: float | None = Field(description="Of all returned labels together.")
    recall: float = Field(description="Of all true labels together.")
    f1: float


class PromiseSet(BaseModel):
    """Label sets of one promise, on the held-out rows."""

    promise: str
    kept: bool
    threshold: float
    size: float = Field(description="Mean number of labels per text.")
    precision: float | None = Field(description="Of all returned labels together.")
    recall: float = Field(description="Mean over texts, as it is promised.")
    review: float = Field(description="Share of texts that need manual review.")


class CalibrationReport(BaseModel):
    """Quality of the probabilities, on rows that the calibrated model did not see."""

    rows: int
    expected_error: float = Field(description="Mean distance of predicted and observed (ECE).")
    reliability: list[ReliabilityBin]
    sets: list[SetPoint]
    promises: list[PromiseSet] = Field(description="From few certain labels to many.")


class ParetoPoint(BaseModel):
    """One shape of the tree that was tried."""

    lam: float
    quality: float
    cost: float
    chosen: bool


class ParetoCurve(BaseModel):
    """Quality and cost along λ, if it was tuned."""

    quality: str = Field(description="Name of the quality measure, such as P@1.")
    cost: str = Field(description="Name of the cost measure, such as milliseconds.")
    points: list[ParetoPoint]


class MemberFacts(BaseModel):
    """What a member of an ensemble brings, in nDCG@5 on held-out rows."""

    name: str
    alone: float = Field(description="Of the member's own ranking.")
    lost: float = Field(description="What all members together lose without it.")
    used: bool = Field(description="Whether it is part of the ensemble; members that do not help are left out.")
    seconds: float = Field(description="CPU seconds of its training.")


class TrainingTexts(BaseModel):
    """The same figures of held-out training texts; null where they are not known, as for models of older versions."""

    mean_top_score: float | None
    unknown_words: float | None
    label_drift: float | None


class TrafficFacts(BaseModel):
    """What requests looked like since the service started; figures are null until there were some."""

    texts: int
    mean_top_score: float | None = Field(description="Mean of the best score of each text.")
    unknown_words: float | None = Field(description="Share of words that the model does not know, in a sample.")
    label_drift: float | None = Field(
        description="Share of suggestions that would have to move to be spread over label frequencies as in training."
    )
    compared: int = Field(description="Texts that the candidate model answered, too.")
    agreement: float | None = Field(description="Mean share of labels that both models suggested.")
    training: TrainingTexts


class UpdateFacts(BaseModel):
    """An update of the model by new rows (`tagwood update`)."""

    rows: int = Field(description="New rows.")
    labels: int = Field(description="Labels of these rows.")
    new_labels: int = Field(description="Labels that had no rows before.")
    cpu_seconds: float
    date: str
    unchanged: list[str] = Field(description="Members that only a full training changes.")


class ModelResponse(BaseModel):
    """What the model is, how good it is, and the limits of requests."""

    model: str = Field(description="Short hash of the model.")
    kind: str = Field(examples=["LinearTree"])
    quality: str = Field(description="fast, balanced or best, as it was asked for.")
    simpler_because: str = Field(description="Why the model is simpler than that; empty if it is not.")
    members: list[MemberFacts] = Field(description="Members of an ensemble; empty for other models.")
    passport: dict[str, Any] = Field(description="When and how it was trained, notes, versions, bytes.")
    labels: int
    labels_in_training: int
    labels_masked: int
    rows: int = Field(description="Training texts.")
    updates: list[UpdateFacts] = Field(description="Since the last full training, oldest first.")
    full_training_due: str = Field(description="Why a full training is due; empty if it is not.")
    languages: list[str]
    fields: dict[str, int] = Field(description="Named fields of the texts and how often each counts; may be empty.")
    tree: dict[str, Any] | None = Field(description="Sizes of the label tree.")
    recipe: str | None = Field(description="All settings, as TOML for `tagwood train --recipe`.")
    metrics: dict[str, float] | None = Field(description="On the held-out rows, between 0 and 1.")
    measured_rows: int = Field(description="Number of held-out rows that the metrics were measured on.")
    calibration: CalibrationReport | None
    pareto: ParetoCurve | None
    missing: dict[str, str] = Field(description="Why metrics, calibration or pareto are null.")
    largest: list[LabelBrief]
    groups: int | None = Field(description="Number of groups to review; null if not trained from groups.")
    feedback: bool = Field(description="Whether feedback is stored.")
    queue: bool = Field(description="Whether texts wait for review.")
    learn: bool = Field(description="Whether the model in use learns from requests.")
    traffic: TrafficFacts
    limits: RequestLimits


class DecisionCounts(BaseModel):
    """Numbers of decisions; people agree with a suggestion by accepting it."""

    records: int = Field(description="Number of records with these decisions.")
    accepted: int
    rejected: int
    added: int
    untouched: int
    agreement: float | None = Field(description="accepted / (accepted + rejected); null if nothing was decided.")


class PeriodCounts(DecisionCounts):
    """Decisions of a day or a month."""

    period: str = Field(examples=["2026-03-01"])


class CorrectedLabel(DecisionCounts):
    """Decisions on a label."""

    id: int | None = Field(description="Null for a proposal, or a label that is gone.")
    name: str
    uri: str | None


class ProgressResponse(DecisionCounts):
    """How often people agreed with suggestions."""

    texts: int
    people: int
    learned: int = Field(description="Records that the model was taught at once.")
    periods: list[PeriodCounts] = Field(description="Days, or months if there are more than 60 days.")
    labels: list[CorrectedLabel] = Field(description="Most corrected labels first.")
    model: str


class QueuedTextResponse(BaseModel):
    """A text that waits for review."""

    row: int
    id: str
    text: str
    score: float = Field(description="Score of its best label.")


class QueueResponse(BaseModel):
    """Texts that wait for review, least certain first."""

    waiting: int
    done: int = Field(description="Texts of the file that have feedback.")
    texts: list[QueuedTextResponse]
    model: str


class GroupBrief(BaseModel):
    """A group in a list."""

    group: int
    name: str
    samples: int
    labels: int
    confidence: float = Field(description="Mean confidence of the imputed labels; review low ones first.")
    corrected: bool


class GroupsResponse(BaseModel):
    """Groups, least confident first."""

    total: int = Field(description="Groups that match.")
    in_training: int = Field(description="Groups in the training data; only some are kept for review.")
    groups: list[GroupBrief]


@dataclass(frozen=True)
class ImputedLabel(LabelBrief):
    """A label imputed for a sample."""

    confidence: Annotated[float, Field(description="Share of the label in the group; 1 is a clear decision.")]
    similarity: float


class GroupSample(BaseModel):
    """One sample of a group."""

    row: int = Field(description="Row in the training data.")
    text: str
    labels: list[ImputedLabel]
    corrected: bool = Field(description="The labels come from a review.")


class GroupResponse(BaseModel):
    """A group, its labels and its samples."""

    group: int
    name: str
    labels: list[LabelBrief]
    samples: list[GroupSample]


class SampleLabels(RequestBody):
    """The right labels of one sample."""

    row: RowNumber = Field(description="Row in the training data, as in /v1/groups/{group}.")
    labels: list[LabelKey]


class CorrectionRequest(RequestBody):
    """The right labels of some samples of a group; to accept the imputed labels, send them back."""

    model_config = _example(samples=[{"row": 4, "labels": ["trees"]}])

    samples: list[SampleLabels] = Field(min_length=1, max_length=1000)
    note: str | None = Field(default=None, max_length=2000)
