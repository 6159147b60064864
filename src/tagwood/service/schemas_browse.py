"""What the service answers about labels, the label tree, the model and groups, as pydantic models. See `schemas`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tagwood.service.schemas import LabelBrief, LabelKey, Model, RowNumber


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
