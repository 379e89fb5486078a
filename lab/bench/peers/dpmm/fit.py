"""MST or AIM of dpmm on a declared grid, in its own process: fit.py METHOD GIVEN ANSWER."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from dpmm.pipelines.aim import AIMPipeline
from dpmm.pipelines.mst import MSTPipeline


def main() -> None:
    """Fit it, and write rows that it generates, as places on the grid."""
    given = np.load(sys.argv[2])
    codes, sizes = given["codes"], given["sizes"]
    names = [f"c{k}" for k in range(codes.shape[1])]
    started = time.perf_counter()
    pipeline = {"mst": MSTPipeline, "aim": AIMPipeline}[sys.argv[1]](
        epsilon=float(given["epsilon"]), delta=float(given["delta"]), n_jobs=1,
        disable_processing=True, max_model_size=80,
    )  # fmt: skip
    seed = int(given["seed"])
    domain = {name: int(size) for name, size in zip(names, sizes, strict=True)}
    pipeline.fit(pd.DataFrame(codes, columns=names), domain=domain, random_state=seed)
    rows = pipeline.generate(n_records=int(given["rows"]), random_state=seed)
    answer = {"rows": rows[names].to_numpy().tolist(), "seconds": time.perf_counter() - started}
    Path(sys.argv[3]).write_text(json.dumps(answer))


main()
