"""Three wards publish noisy proportions of ill people; a fourth estimates its own from them."""

import numpy as np

import suffice as sf

rng = np.random.default_rng(0)


def draw_ward(people: int, proportion: float) -> tuple[np.ndarray, np.ndarray]:
    """Return invented measurements, and who is ill (1) or not (0)."""
    ill = (rng.random(people) < proportion).astype(int)
    return rng.standard_normal((people, 4)) + 1.5 * ill[:, None] * [1, 1, 0, 0], ill


wards = {name: draw_ward(500, ill) for name, ill in (("a", 0.1), ("b", 0.4), ("c", 0.8))}
X = np.concatenate([rows for rows, _ in wards.values()])
y = np.concatenate([ill for _, ill in wards.values()])
bags = np.repeat(list(wards), 500)  # the ward of each row

# The owner publishes the proportions. The ward of each person is public, the illness is private.
print(sf.plan_proportions([500, 500, 500], classes=2, epsilon=0.1))
release = sf.LabelProportions(epsilon=0.1).release(X, y, bags, ledger=None)
print(release.guarantee)

# The learner has the release, the public rows of the three wards, and the rows of a new ward.
model = sf.ClassRatio().fit_release(release, X, bags=bags)
new_rows, new_ill = draw_ward(400, 0.25)
estimate = model.estimate(new_rows)
for sentence in estimate.words:  # where the wards contradict label shift
    print(sentence)
proportion, low, high = estimate.estimates["label_shift"][1], estimate.low[1], estimate.high[1]
print(f"estimated proportion of ill people: {proportion:.3f} ({low:.3f} to {high:.3f})")
print(f"true proportion: {new_ill.mean():.3f}")
