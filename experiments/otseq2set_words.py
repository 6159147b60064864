"""What the OTSeq2Set experiment says in words: written by hand from the figures that stand beside them."""

from __future__ import annotations

WORDS: dict[str, list[str]] = {
    "summary": [
        "What holds so far and what does not, at this scale (far below the paper's 15,000 texts, 1,000 words and 512 "
        "states). The page grows as runs are added; where one seed is named, differences below about two points "
        "mean nothing.",
        "- Matching beats sequences: on cooking-stackexchange BM is 2 to 3 points of micro-F1 above Seq2Seq, MLC2Seq "
        "and SGM, on held-out and on test rows.\n"
        "- Transport as printed (λ = 8, weight of ∅ 0.2) does not help: it raises recall and loses more precision. The "
        "reason is the weight of ∅, not the transport of steps that are to say ∅: moving matched steps only changes "
        "nothing. The transport adds to what a step gains by saying a label, so ∅ must weigh more too. With weight 1 "
        "BM + OT passes BM with weight 0.2; but BM with weight 0.5 is as good without transport.\n"
        "- So BM + OT > BM is not shown here: where each has its own weight of ∅, chosen on held-out rows, the "
        "difference is within the noise of one seed.\n"
        "- A linear tree on TF-IDF of the same rows, trained in a fraction of a second, has better sets than any of "
        "the networks at this number of rows. Its best fixed size also has a smaller error of the set size.",
    ],
}
