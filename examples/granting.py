"""A learner asks for a release, and the owner's policy and ledger decide. Nobody sends a label."""

from sklearn.datasets import load_breast_cancer

import suffice as sf

X, y = load_breast_cancer(return_X_y=True)  # both have X, only the owner has y

# The owner sets a budget for all requests together, and limits for a single request.
budget = {"diagnosis": sf.Budget(epsilon=1.5, delta=1e-5)}
ledger = sf.Ledger("granting.ledger", budget, classes={"diagnosis": (0, 1)})
policy = sf.Policy(largest_epsilon=1.0, largest_delta=1e-6)

# The learner asks four times: above the limit, within it, the same again, beyond the budget.
for epsilon in (3.0, 1.0, 1.0, 0.9):
    proposal = sf.propose(X, epsilon=epsilon, delta=1e-6, purpose="a study")
    answer, release = sf.grant(proposal, X, y, policy=policy, ledger=ledger, dataset="diagnosis")
    spent = ledger.balances()[0].spent
    print(f"epsilon {epsilon}: {type(answer).__name__}, spent so far {spent:.2f}")
    if release is not None:
        release.save("granted.suffice")
        sf.check_answer(proposal, answer, "granted.suffice")  # it is the release that was asked for

# The learner trains on the release that was granted.
model = sf.FactoredClassifier().fit_release(sf.load("granted.suffice"), X)
low, high = model.risk_interval_
print(f"risk, estimated without labels: {model.risk_:.3f} ({low:.3f} to {high:.3f})")
