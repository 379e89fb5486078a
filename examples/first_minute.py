"""One owner, one learner, and one file between them. The README shows this program."""

from sklearn.datasets import load_breast_cancer

import suffice as sf

X, y = load_breast_cancer(return_X_y=True)  # the rows are public, the labels are private

# The owner predicts the accuracy (this reads no label), sets a budget, and makes the release.
plan = sf.plan_mean_operator(X, epsilon=1.0, delta=1e-6)
ledger = sf.Ledger("clinic.ledger", {"diagnosis": sf.Budget(epsilon=2.0, delta=1e-5)})
mechanism = sf.MeanOperator(epsilon=1.0, delta=1e-6)
release = mechanism.release(X, y, ledger=ledger, dataset="diagnosis")
release.save("diagnosis.suffice")

# The learner has the file and the public rows.
release = sf.load("diagnosis.suffice")
print(f"epsilon = {release.guarantee.epsilon:.4g} for each {release.guarantee.unit}")
model = sf.FactoredClassifier().fit_release(release, X)
print("accuracy above 90 %:", model.score(X, y) > 0.9)
