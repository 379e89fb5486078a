"""A model in the units of its columns: coefficients with intervals, features and probabilities."""

import numpy as np
import pandas as pd

import suffice as sf

rng = np.random.default_rng(0)
patients = pd.DataFrame(
    {
        "age": rng.normal(60, 10, 4000).round(),
        "dose": rng.gamma(4, 0.5, 4000),
        "ward": rng.choice(["east", "north", "south"], 4000),
    }
)
score = (patients["age"] - 60) / 10 - (patients["dose"] - 2) + (patients["ward"] == "north")
relapse = (rng.random(4000) < 1 / (1 + np.exp(-score))).to_numpy().astype(int)

# The owner protects each label. The learner has the release and the public columns.
release = sf.MeanOperator(epsilon=1.0, delta=1e-6, map=None).release(patients, relapse, ledger=None)
model = sf.FactoredClassifier().fit_release(release, patients)

low, high = model.coef_interval_
for j, feature in enumerate(model.get_feature_names_out()):
    print(f"{feature}: {model.coef_[0, j]:.3g} ({low[0, j]:.3g} to {high[0, j]:.3g} at 95 %)")

# All rows have exactly these scores: transform shortens those that the pipeline clips.
features = model.set_output(transform="pandas").transform(patients)
scores = features.to_numpy() @ model.coef_[0] + model.intercept_[0]
equal = np.abs(scores - model.decision_function(patients)) < 1e-9
print("coefficients give every score:", equal.all())
print("probabilities of both classes:", model.predict_proba(patients).shape)
