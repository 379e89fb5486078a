"""A thousand people answer a survey, each randomised on their own side; the answers still teach."""

from pathlib import Path

import numpy as np
import pyarrow as pa

import suffice as sf

STATES = {"relapse": ["no", "yes"], "smokes": ["never", "sometimes", "daily"]}
PEOPLE = 1000

# whoever asks
survey = sf.new_survey("After the clinic", states=STATES, flip=0.2)

# each participant: the truth stays here, one answer file leaves
rng = np.random.default_rng(0)
smokes = rng.choice(STATES["smokes"], p=[0.5, 0.25, 0.25], size=PEOPLE)
relapse = np.where(rng.random(PEOPLE) < np.where(smokes == "daily", 0.8, 0.2), "yes", "no")
files = [Path(f"answer-{number}.json") for number in range(PEOPLE)]
for file, one, other in zip(files, relapse, smokes, strict=True):
    answer, _ = sf.respond(survey, {"relapse": str(one), "smokes": str(other)}, memory=None)
    file.write_bytes(answer)

# whoever asked never held a true answer
release = sf.collect(survey, files)
for guarantee in release.guarantees:
    print(f"each {guarantee.unit}: epsilon {guarantee.epsilon:.3f}")

# a learner
model = sf.SpreadClassifier().fit_release(release)
found = model.predict_proba(pa.table({"smokes": STATES["smokes"]}))[:, 1]
for state, share in zip(STATES["smokes"], found, strict=True):
    truth = np.mean(relapse[smokes == state] == "yes")
    print(f"smokes {state}: relapses {share:.2f}, in truth {truth:.2f}")
