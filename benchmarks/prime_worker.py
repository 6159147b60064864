"""One training of the PRIME benchmark, whose memory is measured: started by `benchmarks.prime` in its own process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.measure import Meter
from benchmarks.prime_problem import make_texts
from tagwood.neural.encoders.text_encoder import TextEncoder
from tagwood.neural.prime.model import PrototypeModel


def main() -> None:
    job = json.loads(sys.argv[1])
    texts = make_texts(job["rows"], job["n_labels"])
    encoder = TextEncoder("bag", dimension=job["dimension"], threads=1)
    model = PrototypeModel(
        encoder=encoder, centroids="momentum", epochs=1, batch_size=job["batch"], threads=1
    )
    with Meter() as meter:
        model.fit(texts.texts, texts.Y, label_texts=texts.label_texts)
    Path(job["answer"]).write_text(json.dumps(meter.as_dict("fit")))


if __name__ == "__main__":
    main()
