"""The settings of a service: the example is good, and what is wrong is said before it listens."""

import tomllib

import httpx
import pytest
from served import make_clinic, running

from suffice.errors import ParameterError, StorageError
from suffice.service.settings import EXAMPLE, Settings


def loaded(folder, text: str) -> Settings:
    folder.mkdir(exist_ok=True)
    (folder / "suffice.toml").write_text(text)
    return Settings.load(folder)


def test_the_example_is_good(tmp_path):
    settings = loaded(tmp_path / "a", EXAMPLE)
    assert settings.datasets["diagnosis"].grants == "by-hand"
    assert settings.ledger == str(tmp_path / "a" / "clinic.ledger")
    assert set(tomllib.loads(EXAMPLE)["server"]) == {"host", "port"}


def test_a_folder_without_settings_says_how_to_get_some(tmp_path):
    with pytest.raises(StorageError, match="suffice serve --task example"):
        Settings.load(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('ledger = "clinic.ledger"', "", "at ledger: this member is missing"),
        ('host = "127.0.0.1"', 'host = "0.0.0.0"', "read tokens that go to 0.0.0.0"),
        ("port = 8765", "port = 70000", "0 to 65535"),
        ("port = 8765", 'port = "8765"', r"at server\.port: a whole number belongs here"),
        ("port = 8765", "prot = 8765", r"at server\.prot: there is no such member"),
        ('grants = "by-hand"', 'grants = "never"', "by-hand, automatic"),
        ('features = ["age", "size"]', "", "must name its features"),
        ("largest_epsilon = 1", "largest_epsilon = -1", "epsilon"),
        ("requests_per_minute = 120", "requests_per_minute = 0", "positive"),
        ('organisation = "Clinic of Example"', "organisation = [", "not TOML"),
        ('# prefix = "/suffice"', 'prefix = "suffice"', "begin with a slash"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, old, new, words):
    assert old in EXAMPLE
    with pytest.raises(ParameterError, match=words):
        loaded(tmp_path / "a", EXAMPLE.replace(old, new))


def test_a_proxy_or_tls_lets_the_service_listen_elsewhere(tmp_path):
    text = EXAMPLE.replace('host = "127.0.0.1"', 'host = "0.0.0.0"\nbehind_proxy = true')
    assert loaded(tmp_path / "a", text).server.behind_proxy


def test_a_prefix_comes_before_every_route(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    path = clinic.folder / "suffice.toml"
    path.write_text(path.read_text().replace("[server]", '[server]\nprefix = "/suffice"'))
    headers = {"Authorization": f"Bearer {clinic.tokens['learner']}"}
    with running(clinic) as (url, _):
        assert httpx.get(f"{url}/suffice/v1/datasets", headers=headers).status_code == 200
        assert httpx.get(f"{url}/v1/datasets", headers=headers).status_code == 404
        assert httpx.get(f"{url}/suffice/health").status_code == 200
