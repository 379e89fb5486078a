"""multi-freq-ldpy's randomised response and its two estimators, on exported states.

Runs inside its own environment (../environments.py makes it): python fit.py STATES.npz OUTPUT.json.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from multi_freq_ldpy.pure_frequency_oracles.GRR import (
    GRR_Aggregator_IBU,
    GRR_Aggregator_MI,
    GRR_Client,
)


def main() -> None:
    inputs, output = np.load(sys.argv[1]), Path(sys.argv[2])
    count, epsilon = int(inputs["count"]), float(inputs["epsilon"])
    GRR_Client(0, count, epsilon)  # compiles
    start = time.process_time()
    reports = [GRR_Client(state, count, epsilon) for state in inputs["states"]]
    drawn_at = time.process_time()
    shares = GRR_Aggregator_MI(reports, count, epsilon)
    results = {
        "seconds": drawn_at - start,
        "estimating": time.process_time() - drawn_at,
        "MI": np.asarray(shares).tolist(),
        "IBU": np.asarray(GRR_Aggregator_IBU(reports, count, epsilon)).tolist(),
    }
    output.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
