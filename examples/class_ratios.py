"""Three wards say how many are ill, with noise; a fourth learns how many are ill with it."""

import numpy as np

import suffice as sf

rng = np.random.default_rng(0)


def ward(people: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    ill = (rng.random(people) < share).astype(int)
    return rng.standard_normal((people, 4)) + 1.5 * ill[:, None] * [1, 1, 0, 0], ill


wards = {name: ward(500, share) for name, share in (("a", 0.1), ("b", 0.4), ("c", 0.8))}
X = np.concatenate([rows for rows, _ in wards.values()])
y = np.concatenate([ill for _, ill in wards.values()])
bags = np.repeat(list(wards), 500)

# the owner: who is in which ward is public, who is ill is not
print(sf.plan_proportions([500, 500, 500], classes=2, epsilon=0.1))
release = sf.LabelProportions(epsilon=0.1).release(X, y, bags, ledger=None)
print(release.guarantee)

# the learner
model = sf.ClassRatio().fit_release(release, X, bags=bags)
rows, ill = ward(400, 0.25)
low, high = model.interval(rows)[:, 1]
share = model.quantify(rows)[1]
print(f"ill: {share:.3f}, between {low:.3f} and {high:.3f}; in truth {ill.mean():.3f}")
