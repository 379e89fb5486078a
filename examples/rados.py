"""Nothing of a record leaves but sums over random subsets; a classifier is learnt from them."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import suffice as sf

X, y = load_breast_cancer(return_X_y=True)
records, others, labels, their_labels = train_test_split(X, y, test_size=0.5, random_state=0)
sample = others[:100]  # public rows, by which private ones are scaled

# the owner
print(sf.plan_rados(records, epsilon=5.0, delta=1e-6, standardize=sample))
for unit in ("label", "record"):
    mechanism = sf.Rados(unit=unit, epsilon=5.0, delta=1e-6, standardize=sample)
    release = mechanism.release(records, labels, ledger=None)
    release.save(f"{unit}.suffice")

# the learner, who has neither rows nor labels
for unit in ("label", "record"):
    release = sf.load(f"{unit}.suffice")
    model = sf.RadoRidge().fit_release(release)
    found = model.score(others[100:], their_labels[100:])
    print(f"each {unit} protected at epsilon {release.guarantee.epsilon:.2f}: accuracy {found:.3f}")
