"""The owner publishes sums of records over random subsets. The learner needs nothing else."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import suffice as sf

X, y = load_breast_cancer(return_X_y=True)
records, others, labels, other_labels = train_test_split(X, y, test_size=0.5, random_state=0)
sample = others[:100]  # public rows, used to scale the private ones

# The owner makes two releases: one protects each label, the other each whole record.
print(sf.plan_rados(records, epsilon=5.0, delta=1e-6, standardize=sample))
for unit in ("label", "record"):
    mechanism = sf.Rados(unit=unit, epsilon=5.0, delta=1e-6, standardize=sample)
    release = mechanism.release(records, labels, ledger=None)
    release.save(f"rados-{unit}.suffice")

# The learner has neither rows nor labels. The score is computed on other people's records.
for unit in ("label", "record"):
    release = sf.load(f"rados-{unit}.suffice")
    model = sf.RadoRidge().fit_release(release)
    accuracy = model.score(others[100:], other_labels[100:])
    print(
        f"each {unit} protected, epsilon {release.guarantee.epsilon:.2f}: accuracy {accuracy:.3f}"
    )
