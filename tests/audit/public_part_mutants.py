"""Faults that gave labels away, put back one by one: the pairs have to find each of them."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from suffice.audit import public_part
from suffice.engines.summary import ColumnMoments
from suffice.owner.labelled import LabelledPass, LabelProcedure
from suffice.owner.mean_operator import NoisySums
from suffice.owner.proportions import NoisyProportions
from suffice.tables import files


class FloatMoments(ColumnMoments):
    """Adds floats in the order in which batches come."""

    def __init__(self, width):
        super().__init__(width)
        self.total = np.zeros(width)

    def update(self, columns):
        super().update(columns)
        self.total += np.nansum(columns, axis=1)

    def result(self):
        exact = super().result()
        return replace(exact, mean=self.total / exact.count)


def sums_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add floats block by block, as the reader of a file has cut it (hole 1 of issue H).

    Both sides are read in batches of one size: what moves the cuts is the length of a label.
    """
    monkeypatch.setattr(public_part, "_BATCHES", (1 << 16,))
    monkeypatch.setattr("suffice.engines.summary.ColumnMoments", FloatMoments)
    monkeypatch.setattr(files, "equal_batches", lambda batches, _: (b for b in batches))


def no_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add floats in the order of equal batches: means are no longer exact and rounded once."""
    monkeypatch.setattr("suffice.engines.summary.ColumnMoments", FloatMoments)


def laundered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pipeline of private rows change nothing about a guarantee (hole 2 of issue H)."""
    for module in ("labelled", "mechanism", "rados", "scaling", "parties.ensemble"):
        monkeypatch.setattr(f"suffice.owner.{module}.as_scaled", lambda guarantee, _: guarantee)


def absent_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish exactly zero for a class that no row of a bag is of."""
    contents = NoisyProportions.contents

    def mutant(self, exact):
        arrays, details, noise = contents(self, exact)
        occurring = exact.result() > 0
        shares = arrays["proportions"] * occurring + 1e-12 * occurring
        shares /= shares.sum(axis=1, keepdims=True)
        zeroed = {"proportions": shares, "counts": arrays["counts"] * occurring}
        return arrays | zeroed, details, noise

    monkeypatch.setattr(NoisyProportions, "contents", mutant)


def _with_label_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    update = LabelledPass.update

    def counted(self, batch):
        update(self, batch)
        self.label_sum = getattr(self, "label_sum", 0) + int(batch.codes.sum())

    monkeypatch.setattr(LabelledPass, "update", counted)


def parity_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the last bit of the step to the parity of the labels."""
    _with_label_sums(monkeypatch)
    contents = NoisySums.contents

    def mutant(self, exact):
        arrays, details, noise = contents(self, exact)
        odd = exact.label_sum % 2
        return arrays, {**details, "step": float(np.nextafter(details["step"], 2.0 * odd))}, noise

    monkeypatch.setattr(NoisySums, "contents", mutant)


def sign_of_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sum of labels decide the sign of a zero among the means of the pipeline."""
    _with_label_sums(monkeypatch)
    draw = LabelProcedure.draw

    def mutant(self, exact, guarantees):
        release = draw(self, exact, guarantees)
        zero = -0.0 if exact.label_sum % 2 else 0.0
        mean = np.where(release.pipeline.mean == 0, zero, release.pipeline.mean)
        return replace(release, pipeline=replace(release.pipeline, mean=mean))

    monkeypatch.setattr(LabelProcedure, "draw", mutant)


def numbers_by_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Arrow convert the private numbers of a CSV file, which stops at what is no number."""

    def mutant(cells, decimal="."):
        return pc.replace_substring(cells.cast(pa.string()), decimal, ".").cast(pa.float64())

    monkeypatch.setattr(files, "numbers_of", mutant)


MUTANTS = (
    sums_by_block,
    no_rounding,
    laundered,
    absent_class,
    parity_in_step,
    sign_of_zero,
    numbers_by_arrow,
)
