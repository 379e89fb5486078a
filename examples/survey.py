"""A thousand people answer a survey. Each answer is randomised before it is sent."""

from pathlib import Path

import numpy as np
import pyarrow as pa

import suffice as sf

QUESTIONS = {"relapse": ["no", "yes"], "smokes": ["never", "sometimes", "daily"]}
PEOPLE = 1000

# The organisers write the survey. An answer becomes another one with a probability of 20 %.
survey = sf.new_survey("After the clinic", states=QUESTIONS, flip=0.2)

# Invented people: daily smokers relapse more often.
rng = np.random.default_rng(0)
smokes = rng.choice(QUESTIONS["smokes"], p=[0.5, 0.25, 0.25], size=PEOPLE)
relapse = np.where(rng.random(PEOPLE) < np.where(smokes == "daily", 0.8, 0.2), "yes", "no")

# Each participant keeps the true answers and sends one file of randomised answers.
folder = Path("survey-answers")
folder.mkdir(exist_ok=True)
files = [folder / f"{number}.json" for number in range(PEOPLE)]
for file, relapsed, smoking in zip(files, relapse, smokes, strict=True):
    truth = {"relapse": str(relapsed), "smokes": str(smoking)}
    answer, _ = sf.respond(survey, truth, memory=None)
    file.write_bytes(answer)

# The organisers collect the files. They cannot be sure which answers are true.
release = sf.collect(survey, files)
for guarantee in release.guarantees:
    print(f"each {guarantee.unit}: epsilon {guarantee.epsilon:.3f}")

# A learner estimates how often people relapse, and corrects for the randomised answers.
model = sf.SpreadClassifier().fit_release(release)
estimates = model.predict_proba(pa.table({"smokes": QUESTIONS["smokes"]}))[:, 1]
for value, estimate in zip(QUESTIONS["smokes"], estimates, strict=True):
    exact = np.mean(relapse[smokes == value] == "yes")
    print(f"smokes {value}: {estimate:.2f} relapse (exact {exact:.2f})")
