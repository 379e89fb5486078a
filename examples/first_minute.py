"""The first minute: one owner, one learner, one file between them (also in the README)."""

from sklearn.datasets import load_breast_cancer

import suffice as sf

X, y = load_breast_cancer(return_X_y=True)  # rows are public, labels are private

# the owner
print(sf.plan_mean_operator(X, epsilon=1.0, delta=1e-6))  # what to expect; no label is read
ledger = sf.Ledger("clinic.ledger", {"diagnosis": sf.Budget(epsilon=2.0, delta=1e-5)})
mechanism = sf.MeanOperator(epsilon=1.0, delta=1e-6)
release = mechanism.release(X, y, ledger=ledger, dataset="diagnosis")
release.save("diagnosis.suffice")
print(release.guarantee)

# the learner
release = sf.load("diagnosis.suffice")
model = sf.FactoredClassifier().fit_release(release, X)
print(model.predict(X)[:10], "risk", model.risk_, "between", model.risk_interval_)
