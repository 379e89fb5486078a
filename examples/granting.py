"""A learner asks, an owner answers by its policy and its ledger; nobody shows a label."""

from sklearn.datasets import load_breast_cancer

import suffice as sf

X, y = load_breast_cancer(return_X_y=True)  # both hold X, the owner alone holds y

budget = {"diagnosis": sf.Budget(epsilon=1.5, delta=1e-5)}
ledger = sf.Ledger("clinic.ledger", budget, classes={"diagnosis": (0, 1)})
policy = sf.Policy(largest_epsilon=1.0, largest_delta=1e-6)

for epsilon in (3.0, 1.0, 1.0, 0.9):  # too much; granted; the same again; beyond the budget
    proposal = sf.propose(X, epsilon=epsilon, delta=1e-6, purpose="a study")
    answer, release = sf.grant(proposal, X, y, policy=policy, ledger=ledger, dataset="diagnosis")
    print(f"epsilon {epsilon}: {type(answer).__name__}, spent {ledger.balances()[0].spent:.2f}")
    if release is not None:
        release.save("granted.suffice")
        sf.check_answer(proposal, answer, "granted.suffice")

model = sf.FactoredClassifier().fit_release(sf.load("granted.suffice"), X)
print("risk", model.risk_, "between", model.risk_interval_)
