"""One owner, one learner, and one file between them. The README shows this program."""

from sklearn.datasets import load_breast_cancer

import suffice as sf

X, y = load_breast_cancer(return_X_y=True)  # the rows are public, the labels are private

# The owner opens a budget once. A release is charged to it, and is all that leaves.
ledger = sf.Ledger("clinic.ledger", {"diagnosis": sf.Budget(epsilon=2.0, delta=1e-5)})
release = sf.release(X, y, private="labels", epsilon=1, ledger=ledger, dataset="diagnosis")
release.save("diagnosis.suffice")

# The learner has the file and the public rows.
release = sf.load("diagnosis.suffice")
print(f"epsilon = {release.guarantee.epsilon:.4g} for each {release.guarantee.unit}")
model = sf.FactoredClassifier().fit_release(release, X)
print("accuracy above 90 %:", model.score(X, y) > 0.9)
