"""Three hundred practices train one classifier together. Each practice's data is protected."""

import numpy as np
from sklearn.naive_bayes import GaussianNB

import suffice as sf

PRACTICES, PATIENTS = 300, 12
rng = np.random.default_rng(0)


def draw_patients(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return invented measurements, and who is ill (1) or not (0)."""
    ill = rng.integers(2, size=count)
    return rng.standard_normal((count, 5)) + ill[:, None] * [1.5, 1, 0.5, 0, 0], ill


public_rows, _ = draw_patients(300)
aux = sf.AuxiliaryRows.read(public_rows)
print(sf.plan_parties(PRACTICES, epsilon=1.0, delta=1e-6, rows=300, features=5, classes=2))

# Each practice trains any classifier on its own patients. It sends only votes on the public rows.
parts = []
for number in range(PRACTICES):
    classifier = GaussianNB().fit(*draw_patients(PATIENTS))
    part = sf.PartyContribution.of(f"practice {number}", classifier, aux, mapped=False)
    parts.append(part)

# The aggregator sees the exact votes, adds noise to their sum, and publishes it.
ensemble = sf.PrivateEnsemble(epsilon=1.0, delta=1e-6)
release = ensemble.aggregate(parts, aux, enrolled=PRACTICES, ledger=None).release
print(release.guarantee)

# The learner trains on the release and the public rows.
model = sf.FactoredClassifier().fit_release(release, public_rows)
print(f"accuracy of one practice's classifier: {classifier.score(*draw_patients(2000)):.3f}")
print(f"accuracy of the common classifier: {model.score(*draw_patients(2000)):.3f}")
