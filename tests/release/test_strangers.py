"""What files from strangers could do before, each hole with the file that used it."""

import math
import os
import subprocess
import sys
import threading
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import crafted_files
from suffice.errors import CorruptFileError, StorageError, SufficeError, UnsupportedFileError
from suffice.privacy.events import Approximate, Gaussian, Pure
from suffice.privacy.guarantee import Guarantee, Unit
from suffice.releases.claims import Cells
from suffice.releases.codec import load
from suffice.releases.columns import Added, SpreadColumn
from suffice.releases.file import read_bounded
from suffice.releases.release import encode

FIXTURES = crafted_files.FOLDER


def changed(name: str, **details) -> crafted_files.Container:
    """Return a fixture with other details."""
    crafted = crafted_files._from(name)
    crafted.manifest["details"] |= details
    return crafted


def promised(whole: crafted_files.Container, position: int = 0, **fields) -> bytes:
    """Return the file of a container with another guarantee."""
    whole.manifest["parts"][0]["guarantees"][position].update(fields)
    return whole.sealed()


def test_every_fixture_still_loads_and_seals_to_the_same_bytes():
    for path in sorted(FIXTURES.glob("*.suffice")):
        release = load(path)
        path_again = path.read_bytes()
        assert encode(release) == path_again


@pytest.mark.parametrize("make", ["empty_components", "empty_rados", "high_polynomial"])
def test_what_names_large_shapes_and_holds_nothing_is_refused(make):
    data = getattr(crafted_files, make)().sealed()
    assert len(data) < 3000
    with pytest.raises(CorruptFileError):
        load(data)


def test_an_empty_array_is_refused_by_its_name_and_a_lie_about_bytes_too():
    crafted = crafted_files._from("rados.suffice")
    crafted.arrays["rados"] = np.zeros(0)
    crafted.stated["rados"] = {"shape": [2**40, 0]}
    with pytest.raises(CorruptFileError, match="empty"):
        load(crafted.sealed())
    crafted = crafted_files._from("rados.suffice")
    crafted.stated["rados"] = {"shape": [1, 1]}
    with pytest.raises(CorruptFileError, match="bytes"):
        load(crafted.sealed())


def test_records_without_features_may_lack_columns():
    import pyarrow as pa

    from suffice.owner.responses import RandomizedResponse
    from suffice.releases.release import encode

    poll = RandomizedResponse(label_flip=0.2).release(
        pa.table({"answer": np.arange(40) % 2}), ledger=None, label="answer"
    )
    assert load(encode(poll)) == poll


def test_widths_are_checked_before_a_map_is_applied(monkeypatch):
    from suffice.tables.pipeline import FeatureMap

    applied = []
    monkeypatch.setattr(FeatureMap, "apply", lambda *_: applied.append(1))
    crafted = crafted_files._from("mapped.suffice")
    crafted.manifest["pipeline"]["columns"] = crafted.manifest["pipeline"]["columns"][:1]
    for data in (crafted.sealed(), crafted_files.high_polynomial().sealed()):
        with pytest.raises(CorruptFileError, match=r"in the file is not valid"):
            load(data)
    assert not applied


class TestReading:
    """A file is read by its size, a pipe piece by piece."""

    def test_no_more_memory_is_asked_for_than_the_file_has(self, tmp_path):
        path = tmp_path / "small"
        path.write_bytes(b"x" * 1000)
        script = (
            "import resource, sys; from pathlib import Path;"
            "from suffice.releases.file import read_bounded;"
            "resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32));"
            "print(len(read_bounded(Path(sys.argv[1]), 2**33)))"
        )
        command = [sys.executable, "-c", script, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout == "1000\n", done.stderr

    def test_a_pipe_is_read_to_its_end_or_to_the_limit(self, tmp_path):
        pipe = tmp_path / "pipe"
        for most, sent in ((3_000_000, 2_500_000), (1000, 2000)):
            os.mkfifo(pipe)
            feeder = threading.Thread(target=_feed, args=(pipe, sent))
            feeder.start()
            if sent <= most:
                assert len(read_bounded(pipe, most)) == sent
            else:
                with pytest.raises(StorageError, match="larger"):
                    read_bounded(pipe, most)
            feeder.join()
            pipe.unlink()

    def test_what_does_not_fit_into_memory_is_an_error_of_ours(self, tmp_path):
        path = tmp_path / "large"
        with path.open("wb") as file:
            file.truncate(2**32)  # a hole: it takes no room on the disk
        script = (
            "import resource, sys; from suffice.cli.main import run;"
            "resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32));"
            "sys.argv = ['suffice', 'inspect', sys.argv[1]]; run()"
        )
        command = [sys.executable, "-c", script, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == StorageError.exit_code
        assert "more memory than this computer has" in done.stderr
        assert "Traceback" not in done.stderr


def _feed(pipe: Path, count: int) -> None:
    try:
        with pipe.open("wb") as file:
            file.write(b"x" * count)
    except BrokenPipeError:
        pass  # the reader has had enough


class TestCosts:
    """What a file states is compared with cheap bounds before anything is convolved."""

    def test_many_composed_events_are_refused_without_a_distribution(self, monkeypatch):
        from suffice.privacy import accounting

        monkeypatch.setattr(accounting, "loss_distribution", None)  # would fail if it were called
        with pytest.raises(UnsupportedFileError, match="composes"):
            load(crafted_files.many_laplaces().sealed())

    def test_the_distributions_of_a_file_are_paid_for_together(self):
        """One guarantee of eight Laplaces is computed; two hundred of them took ten seconds."""
        from suffice.privacy.accounting import composed_epsilon
        from suffice.privacy.events import Laplace

        crafted = crafted_files._from("laplace.suffice")
        first, stated = crafted_files._guarantee(crafted), []
        for number in range(200):
            events = [Laplace(0.3 * (1 - 1e-5 * number) * (1 + 1e-6 * i)) for i in range(8)]
            cost = composed_epsilon(events, 1e-6) if number < 20 else 2.3
            event = {"event": "composed", "events": [one.to_json() for one in events]}
            stated.append({**first, "event": event, "epsilon": cost, "delta": 1e-6})
        crafted.manifest["parts"][0]["guarantees"] = stated
        with pytest.raises(UnsupportedFileError, match="composes more"):
            load(crafted.sealed())

    def test_the_composed_events_of_a_file_are_counted_together(self):
        from suffice.privacy.accounting import Effort

        crafted = crafted_files._from("laplace.suffice")
        first = crafted_files._guarantee(crafted)
        event = {"event": "composed", "events": [{"event": "gaussian", "multiplier": 1e-6,
                 "slack": 0, "tail": 0}] * 256}  # fmt: skip
        stated = {**first, "event": event, "epsilon": 1e18, "delta": 1e-6}
        effort = Effort()
        for _ in range(16):
            with pytest.raises(CorruptFileError):
                Guarantee.from_json(stated, effort)
        with pytest.raises(UnsupportedFileError, match="composes more"):
            Guarantee.from_json(stated, effort)

    def test_the_cells_of_a_record_are_joined_once_for_all_guarantees(self, monkeypatch):
        from suffice.releases import claims

        crafted = crafted_files._from("responses.suffice")
        stated = crafted.manifest["parts"][0]["guarantees"]
        stated += [stated[2]] * 50
        joined = []
        monkeypatch.setattr(claims.np, "cumsum", lambda a: joined.append(1) or np.add.accumulate(a))
        load(crafted.sealed())
        assert len(joined) == 2

    def test_guarantees_and_parts_are_counted_before_they_are_computed(self):
        crafted = crafted_files.many_gaussians(10)
        stated = crafted.manifest["parts"][0]["guarantees"]
        crafted.manifest["parts"][0]["guarantees"] = stated * 500
        with pytest.raises(CorruptFileError, match="at most 2,048"):
            load(crafted.sealed())

    def test_inspecting_even_noise_takes_memory_by_the_number_of_coordinates(self):
        import tracemalloc

        from suffice.releases.kinds import noise_words

        release = load(crafted_files.wide_identity(20_000).sealed())
        tracemalloc.start()
        assert noise_words(release).endswith("(standard deviation per feature)")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20_000 * 100

    def test_noise_of_every_form_is_described_as_its_diagonal_says(self):
        from suffice.releases.release import Covariance

        rng = np.random.default_rng(0)
        for noise in (
            Covariance("identity", 2.0),
            Covariance("diagonal", 2.0, rng.uniform(size=5)),
            Covariance("factor", 2.0, rng.normal(size=(5, 3))),
        ):
            np.testing.assert_allclose(noise.diagonal(5), noise.along(np.eye(5)))


FALSE_EVENTS = [
    {"event": "approximate", "bound": 0.01, "at_delta": 1e-9},
    {"event": "composed", "events": [{"event": "laplace", "bound": 0.005}] * 2},
    {"event": "pure", "bound": 0.01},
]


class TestClaims:
    """A guarantee that the file's own numbers contradict is refused."""

    def test_randomised_labels_say_what_their_channel_means(self):
        with pytest.raises(CorruptFileError, match="more protection"):
            load(crafted_files.false_responses().sealed())

    @pytest.mark.parametrize("position", [0, 1, 2])
    def test_randomised_records_do_so_per_label_attribute_and_record(self, position):
        for name in ("survey.suffice", "responses.suffice"):
            low = {"event": {"event": "pure", "bound": 0.3}, "epsilon": 0.3, "delta": 0}
            with pytest.raises(CorruptFileError, match="more protection"):
                load(promised(crafted_files._from(name), position, **low))
            some = {"event": "approximate", "bound": 0.3, "at_delta": 1e-6}
            low = {"event": some, "epsilon": 0.3, "delta": 1e-6}
            with pytest.raises(CorruptFileError, match="more protection"):
                load(promised(crafted_files._from(name), position, **low))

    @pytest.mark.parametrize(
        "name",
        ["laplace.suffice", "mean-operator.suffice", "votes.suffice", "proportions.suffice",
         "rados.suffice"],
    )  # fmt: skip
    def test_no_noise_or_far_too_little_of_it_keeps_no_promise(self, name):
        for noise in ({"form": "none", "variance": 0}, {"form": "identity", "variance": 0}):
            crafted = crafted_files._from(name)
            crafted.manifest["noise"] = noise
            crafted.arrays.pop("noise.array", None)
            with pytest.raises(CorruptFileError, match="more protection"):
                load(crafted.sealed())
        crafted = crafted_files._from(name)
        crafted.manifest["noise"]["variance"] *= 1e-4
        with pytest.raises(CorruptFileError, match="more protection"):
            load(crafted.sealed())

    @pytest.mark.parametrize(
        "name", ["votes.suffice", "proportions.suffice", "rados.suffice", "rados-from-rows.suffice"]
    )
    def test_a_thousandth_less_noise_than_a_promise_needs_is_refused(self, name):
        """Where a file says how far one unit moves its numbers, nothing is lost by checking."""
        for factor, refused in ((0.999, True), (1.0, False)):
            crafted = crafted_files._from(name)
            crafted.manifest["noise"]["variance"] *= factor
            with pytest.raises(CorruptFileError, match="more prot") if refused else nullcontext():
                load(crafted.sealed())

    def test_a_channel_is_judged_by_the_answer_that_tells_most(self):
        """The largest ratios within its rows are 5, 1.8 and 1.8."""
        channel = np.array([[0.5, 0.1, 0.25], [0.25, 0.45, 0.375], [0.25, 0.45, 0.375]])
        for bound, kept in ((math.log(5) - 1e-4, False), (math.log(5) + 1e-4, True)):
            claimed = Guarantee(unit=Unit.LABEL, event=Pure(bound))
            assert Cells(channel, ()).allow(claimed) == kept

    def test_the_numbers_of_a_record_are_judged_together(self):
        """Nine Gaussian cells of four ranges each are one of four thirds, beside a fair label."""
        channel, delta = np.array([[0.5, 0.4999], [0.5, 0.5001]]), 1e-6
        columns = [
            SpreadColumn(f"x{k}", None, Added(0.0, 1.0, "gaussian", 16.0)).to_json()
            for k in range(9)
        ]
        for factor, kept in ((0.9, False), (1.1, True)):
            epsilon = factor * Gaussian(4 / 3).epsilon(delta)
            claimed = Guarantee(unit=Unit.RECORD, event=Approximate(epsilon, delta), delta=delta)
            assert Cells(channel, columns).allow(claimed) == kept

    def test_gaussian_noise_has_no_promise_at_delta_zero(self):
        pure = {"event": {"event": "pure", "bound": 9.0}, "epsilon": 9.0, "delta": 0}
        with pytest.raises(CorruptFileError, match="more protection"):
            load(promised(crafted_files._from("mean-operator.suffice"), **pure))

    @pytest.mark.parametrize(
        "name",
        ["laplace.suffice", "mean-operator.suffice", "votes.suffice", "proportions.suffice",
         "rados.suffice"],
    )  # fmt: skip
    @pytest.mark.parametrize("event", FALSE_EVENTS, ids=lambda event: event["event"])
    def test_no_other_event_than_the_mechanism_s_own_hides_a_lack_of_noise(self, name, event):
        claim = {"event": event, "epsilon": 0.01, "delta": 1e-9 if "at_delta" in event else 0}
        for factor in (1e-24, 1):
            crafted = crafted_files._from(name)
            crafted.manifest["noise"]["variance"] *= factor
            with pytest.raises(CorruptFileError, match="more protection"):
                load(promised(crafted, **claim))

    @pytest.mark.parametrize("form", ["a party", "no intercept", "in a shape"])
    def test_almost_no_noise_hides_no_unit_of_an_operator(self, form):
        crafted = crafted_files._from("laplace.suffice")
        crafted.manifest["noise"]["variance"] = 1e-30
        if form == "a party":
            crafted_files._guarantee(crafted)["unit"] = "party"
        elif form == "no intercept":
            crafted.manifest["pipeline"]["intercept"] = 0
            crafted.arrays["mean_operator"] = crafted.arrays["mean_operator"][:-1]
        else:
            crafted.manifest["noise"]["form"] = "factor"
            crafted.arrays["noise.array"] = np.eye(len(crafted.arrays["mean_operator"]))
        low = {"event": {"event": "laplace", "bound": 0.01}, "epsilon": 0.01, "delta": 0}
        with pytest.raises(CorruptFileError, match="more protection"):
            load(promised(crafted, **low))

    def test_scaled_dirichlet_is_never_called_differentially_private(self):
        some = {"event": "approximate", "bound": 0.05, "at_delta": 0.05}
        claim = {"event": some, "epsilon": 0.05, "delta": 0.05}
        crafted = changed("proportions.suffice", mechanism="scaled-dirichlet")
        crafted.manifest["noise"] = {"form": "none", "variance": 0}
        with pytest.raises(CorruptFileError, match="more protection"):
            load(promised(crafted, **claim))
        assert load(promised(crafted, kind="data-dependent")).guarantee.delta == 0.05

    def test_plain_rados_promise_nothing_and_others_only_their_unit(self):
        for details in ({"mechanism": "plain"}, {"mechanism": "shared"}, {"mechanism": "dp-feat"}):
            with pytest.raises(CorruptFileError, match="more protection"):
                load(changed("rados.suffice", **details).sealed())

    def test_neighbours_are_one_word(self):
        with pytest.raises(CorruptFileError, match="replace-one"):
            load(promised(crafted_files._from("laplace.suffice"), neighbours="nobody"))


class TestNumbers:
    """What the declared bound and noise cannot give is refused, and nobody computes with it."""

    @pytest.mark.parametrize("value", [1e5, 1e150, -1e200, 1e300, 1e308])
    @pytest.mark.parametrize(
        ("name", "array"),
        [
            ("laplace.suffice", "mean_operator"),
            ("mean-operator.suffice", "mean_operator"),
            ("rados.suffice", "rados"),
            ("rados-from-rows.suffice", "rados"),
            ("votes.suffice", "votes"),
            ("proportions.suffice", "counts"),
        ],
    )
    def test_one_huge_number_is_refused(self, name, array, value):
        crafted = crafted_files._from(name)
        crafted.arrays[array] = crafted.arrays[array].copy()
        crafted.arrays[array].flat[0] = value
        with pytest.raises(CorruptFileError, match="its declared bound and noise cannot give"):
            load(crafted.sealed())

    def test_noise_that_no_integers_hold_is_refused_too(self):
        for name in ("laplace.suffice", "votes.suffice", "proportions.suffice", "rados.suffice"):
            crafted = crafted_files._from(name)
            crafted.manifest["noise"]["variance"] = 1e300
            with pytest.raises(CorruptFileError, match="its declared bound and noise cannot give"):
                load(crafted.sealed())

    def test_the_least_noise_of_a_large_epsilon_passes(self):
        from suffice.owner.mean_operator import MeanOperator

        rows = np.random.default_rng(0).normal(size=(40, 3))
        for mechanism in ("laplace", "knorm"):
            for epsilon in (1e-6, 1.0, 600.0):
                made = MeanOperator(epsilon, mechanism=mechanism, map=None).release(
                    rows, np.arange(40) % 2, ledger=None
                )
                assert load(encode(made)) == made


class TestWords:
    """Words that are one of a few must be one of them; hashes have 64 digits."""

    @pytest.mark.parametrize(
        ("name", "detail"),
        [
            ("laplace.suffice", "mechanism"),
            ("label-responses.suffice", "mechanism"),
            ("responses.suffice", "mechanism"),
            ("rados.suffice", "mechanism"),
            ("rados.suffice", "signs"),
            ("proportions.suffice", "mechanism"),
            ("votes.suffice", "mechanism"),
            ("model.suffice", "loss"),
        ],
    )
    def test_details_are_enumerated(self, name, detail):
        unknown = () if detail == "loss" else ("no such word",)  # a loss may be the caller's own
        for word in (*unknown, "\x1b[2J", "long" * 20, ""):
            with pytest.raises(CorruptFileError, match=detail):
                load(changed(name, **{detail: word}).sealed())

    def test_hashes_have_64_lowercase_digits(self):
        from suffice.owner.parties.contribution import PartyContribution
        from suffice.protocol.messages import Proposal

        for digits in ("\x1b" * 64, "A" * 64, "g" * 64, "a" * 63, "a" * 64 + "\n"):
            crafted = crafted_files._from("laplace.suffice")
            crafted.manifest["parts"][0]["rows"]["hash"] = f"sha256:{digits}"
            with pytest.raises(CorruptFileError):
                load(crafted.sealed())
            end = lambda digits=digits: f"sha256:{digits}"  # noqa: E731
            content = crafted_files.json.loads((FIXTURES / "proposal.json").read_bytes())
            for path in (("rows", "hash"), ("pipeline",)):
                with pytest.raises(CorruptFileError):
                    Proposal.load(crafted_files._with_content(content, path, end))
        parts = [make() for label, _, make in crafted_files.of_part("p0.part") if " rows " in label]
        for data in filter(None, parts):
            with pytest.raises(SufficeError):
                PartyContribution.load(data)

    @pytest.mark.parametrize("party", ["", "x" * 201, "\u202eevil", "a\nAll parties counted."])
    def test_a_party_has_a_name_that_can_be_shown(self, party):
        from suffice.owner.parties.contribution import PartyContribution, encode_part

        part = PartyContribution.load(FIXTURES / "p0.part")
        with pytest.raises(CorruptFileError, match="party or its classes"):
            PartyContribution.load(encode_part(replace(part, party=party)))

    def test_names_from_files_are_shown_in_quotes(self):
        from suffice.owner.parties.gathering import UNKNOWN, Rejection

        assert str(Rejection("All counted", "a.part", "late")) == '"All counted" (a.part): late'
        assert str(Rejection(UNKNOWN, "", "late")) == "unknown party: late"

    def test_what_a_file_says_of_its_guarantee_is_shown_in_quotes(self):
        crafted = crafted_files._from("rados-from-rows.suffice")
        lie = "per label Protects each label. If any one label were different"
        stated = {"public": ["nothing", lie], "of": [], "assumptions": []}
        stated["assumptions"] = [{"statement": lie, "checked": "proved by the auditor"}]
        release = load(promised(crafted, **stated))
        assert f'Public, not protected: "nothing" and "{lie}".' in str(release.guarantee)
        assert f'Assumes: "{lie}" ("proved by the auditor").' in str(release.guarantee)
        assert load(encode(release)).guarantee == release.guarantee
        assert lie not in str(release.guarantee).replace(f'"{lie}"', "")

    def test_a_library_has_a_plain_name(self):
        crafted = crafted_files._from("laplace.suffice")
        crafted.manifest["library"] = "suffice 9\nsigned  by the ministry"
        with pytest.raises(CorruptFileError, match="library"):
            load(crafted.sealed())


def test_an_interval_of_the_risk_has_two_ends_around_it():
    with pytest.raises(CorruptFileError, match="two ends"):
        load(crafted_files.half_risk().sealed())
    for figures in ((0.5, 0.6, 0.7), (None, 0.1, 0.2), (0.5, 0.2, 0.4), (0.5, None, 0.7)):
        names = ("risk", "risk_low", "risk_high")
        with pytest.raises(CorruptFileError, match="two ends"):
            load(changed("model.suffice", **dict(zip(names, figures, strict=True))).sealed())
