"""The picture of a plan: predicted accuracy against epsilon, mechanism by mechanism."""

from pathlib import Path

from suffice.owner.forecast import SIGNALS
from suffice.owner.plan import Plan
from suffice.pages.plots import check_plot, save_plot

__all__ = ["draw_plan"]


def draw_plan(plan: Plan, path: Path) -> None:
    """Draw the accuracy of the usual problem, and the band from hard to easy for the best."""
    from matplotlib.figure import Figure

    check_plot(path)
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.25)
    usual = list(SIGNALS).index("usual")
    for name in dict.fromkeys(row.mechanism for row in plan.rows):
        rows = [row for row in plan.rows if row.mechanism == name]
        values = [row.utility.accuracy[usual] for row in rows]
        axes.plot([row.epsilon for row in rows], values, marker="o", label=name)
    best = [row.utility.accuracy for row in plan.chosen]
    ends = [band[0] for band in best], [band[-1] for band in best]
    epsilons = [row.epsilon for row in plan.chosen]
    axes.fill_between(epsilons, *ends, alpha=0.12, label="auto, from hard to easy problems")
    exact = plan.without_noise.accuracy[usual]
    axes.axhline(exact, color="black", linestyle="--", linewidth=1, label="without noise")
    axes.set(xscale="log", xlabel="epsilon (privacy loss per label)", ylabel="predicted accuracy")
    axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize="small")
    save_plot(figure, path)
