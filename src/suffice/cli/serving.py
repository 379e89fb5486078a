"""Commands of the service: serve, and token new, list, revoke."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli.help import HelpfulCommand, group_with
from suffice.cli.output import say, show_json, show_table
from suffice.errors import ParameterError
from suffice.strict_json import plain

if TYPE_CHECKING:
    from suffice.service.records import Desk

__all__ = ["register"]


_Folder = Annotated[Path, typer.Argument(help="Folder that holds suffice.toml.")]
_ORDER = {"Commands": ("new", "list", "revoke")}
token_app = typer.Typer(
    cls=group_with({}, _ORDER), help="Make, list and revoke the tokens of a service."
)


def register(app: typer.Typer) -> None:
    """Add ``serve`` and ``token``."""
    app.command("serve", cls=HelpfulCommand)(serve)
    app.add_typer(token_app, name="token", no_args_is_help=True)


def serve(
    folder: Annotated[Path | None, typer.Argument(help="Folder that holds suffice.toml.")] = None,
    init: Annotated[
        bool,
        typer.Option(
            "--init", help="Make settings, key, ledger and the first owner's token, and end."
        ),
    ] = False,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Serve an invented clinic, to look around. Needs no folder."),
    ] = False,
    port: Annotated[int | None, typer.Option(help="Port, instead of that in suffice.toml.")] = None,
    example: Annotated[
        bool, typer.Option("--example", help="Print an example of suffice.toml, and end.")
    ] = False,
) -> None:
    """Answer learners' proposals over the network.

    The settings are in the file suffice.toml of the folder. `--example` explains them.
    """
    from suffice.service.settings import EXAMPLE, Settings

    if example:
        say(*EXAMPLE.splitlines())
        return
    if demo:
        from suffice.cli.serving_demo import run_demo_service

        if init:
            raise ParameterError("--demo cannot be used with --init. Remove one of them.")
        run_demo_service(folder, port)
        return
    if folder is None:
        raise ParameterError("Name the folder that holds suffice.toml.")
    if init:
        _prepare(folder)
        _make_first_token(folder)
        return
    settings = Settings.load(folder)
    from suffice.service.app import run_server

    run_server(settings, port=port, tell=lambda url: say(f"Serving on {url} (stop with Ctrl-C)"))


def _prepare(folder: Path) -> None:
    """Make what is missing: example settings, the key that they name, and a ledger without data.

    Budgets are final, so nobody but the owner sets them.
    """
    from suffice.owner.ledger import Ledger
    from suffice.owner.ledger.ledger import store_at
    from suffice.release.file import write_whole
    from suffice.release.signing import generate_keys
    from suffice.service.settings import EXAMPLE, FILE_NAME, Settings

    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / FILE_NAME).exists():
        write_whole(folder / FILE_NAME, EXAMPLE.encode(), overwrite=False)
        say(f"{folder / FILE_NAME}: these are example settings. Make them yours.")
    settings = Settings.load(folder)
    if settings.key.suffix == ".key" and not settings.key.exists():
        _, public = generate_keys(settings.key.with_suffix(""))
        say(f"{public}: learners check releases with this public key.")
    store = store_at(settings.ledger)
    if not store.exists():
        Ledger(settings.ledger, {}, anchor=settings.key.with_suffix(".anchor"))
        say(
            f"{store.path}: this ledger has no budgets yet. Add one for each data set with"
            f" `suffice ledger init {store.path} --dataset NAME --epsilon NUMBER`."
        )


def _make_first_token(folder: Path) -> None:
    """Make the first owner's token, unless an owner has one already."""
    from suffice.owner.ledger.tokens import Role, mint, utc_now

    desk = _desk(folder)
    now = utc_now()
    if any(t.role is Role.OWNER and t.is_good(now) for t in desk.tokens()):
        raise ParameterError("An owner has a token already. Make others with `suffice token new`.")
    token, text = mint(Role.OWNER, holder="first owner")
    desk.add_token(token)
    say(f"Start the service with `suffice serve {folder}`. Sign in on its pages with this token.")
    say("It is the first owner's. Keep it safe: it cannot be shown again.")
    say(text)


@token_app.command("new", cls=HelpfulCommand)
def new(
    folder: _Folder,
    role: Annotated[str, typer.Option(help="What the holder may do: owner, officer or learner.")],
    holder: Annotated[str, typer.Option(help="For whom it is, for example 'Ada, Example Ltd'.")],
    dataset: Annotated[
        list[str] | None, typer.Option(help="Data set that it covers (repeatable). Default: all.")
    ] = None,
    days: Annotated[int, typer.Option(help="How many days it is good.")] = 90,
) -> None:
    """Make a token, and print it once."""
    from suffice.owner.ledger.tokens import mint
    from suffice.service.settings import Settings

    served = Settings.load(folder).datasets
    unknown = [name for name in dataset or () if name not in served]
    if unknown:
        raise ParameterError(
            f"The settings name no data set {unknown[0]!r}. They name {', '.join(served)}."
        )
    token, text = mint(role, scope=tuple(dataset or ()), holder=holder, days=days)
    _desk(folder).add_token(token)
    say(f"Token {token.id} is good until {token.expires:%Y-%m-%d}. It cannot be shown again:")
    say(text)


@token_app.command("list", cls=HelpfulCommand)
def list_tokens(
    folder: _Folder, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """List all tokens. Their secrets are not stored, so nobody can list those."""
    tokens = _desk(folder).tokens()
    if json:
        show_json([plain(token.record()) for token in tokens])
        return
    heads = ("id", "role", "data sets", "holder", "expires", "state")
    rows = [
        (t.id, str(t.role), ", ".join(t.scope) or "all", t.holder, f"{t.expires:%Y-%m-%d}", t.state)
        for t in tokens
    ]
    show_table("tokens", heads, rows)


@token_app.command("revoke", cls=HelpfulCommand)
def revoke(
    folder: _Folder,
    identity: Annotated[str | None, typer.Argument(metavar="[ID]", help="Id of the token.")] = None,
    holder: Annotated[
        str | None, typer.Option(help="Revoke every token of this holder instead.")
    ] = None,
) -> None:
    """Revoke a token. It is useless from now on."""
    if (identity is None) == (holder is None):
        raise ParameterError("Name the id of one token, or --holder for all tokens of a holder.")
    desk = _desk(folder)
    tokens = [t.id for t in desk.tokens() if t.holder == holder] if holder else [str(identity)]
    if not tokens:
        raise ParameterError("No token has this holder. `suffice token list` shows them.")
    for token in tokens:
        desk.revoke_token(token)
        say(f"Token {token} is revoked.")


def _desk(folder: Path) -> "Desk":
    from suffice.owner.ledger import Ledger
    from suffice.service.records import Desk
    from suffice.service.settings import Settings

    return Desk(Ledger(Settings.load(folder).ledger))
