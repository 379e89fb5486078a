"""Three hundred practices with a dozen patients each teach one classifier, each protected whole."""

import numpy as np
from sklearn.naive_bayes import GaussianNB

import suffice as sf

rng = np.random.default_rng(0)


def patients(count: int) -> tuple[np.ndarray, np.ndarray]:
    ill = rng.integers(2, size=count)
    return rng.standard_normal((count, 5)) + ill[:, None] * [1.5, 1, 0.5, 0, 0], ill


public, _ = patients(300)
aux = sf.AuxiliaryRows.read(public)
print(sf.plan_parties(300, epsilon=1.0, delta=1e-6, rows=300, features=5, classes=2))

# each practice: any classifier of its own votes on the public rows
parts = []
for number in range(300):
    own = GaussianNB().fit(*patients(12))
    parts.append(sf.PartyContribution.of(f"practice {number}", own, aux, mapped=False))

# the aggregator, whom they trust with their votes
ensemble = sf.PrivateEnsemble(epsilon=1.0, delta=1e-6)
release = ensemble.aggregate(parts, aux, enrolled=300, ledger=None).release
print(release.guarantee)

# the learner
model = sf.FactoredClassifier().fit_release(release, public)
print(f"accuracy of one practice {own.score(*patients(2000)):.3f}")
print(f"accuracy of what all taught {model.score(*patients(2000)):.3f}")
