"""The page on which a person answers a survey: one document, whose program runs in the browser.

It holds the survey's bytes, `participant.js`, which checks and draws, and `participant_page.js`,
which asks, stores the draw and sends it. A policy lets no other program run.
"""

import base64
import hashlib
import html
from importlib.resources import files

from suffice.participant import Survey

_PAGE = """\
<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body data-mode="{mode}" data-trial="{trial}" data-survey="{survey}">
<main id="main">
<noscript>
<h1>{title}</h1>
<p lang="en">This page changes your answers at random in your browser, before anything is sent. It
needs JavaScript for that. Without JavaScript, use the program participant.py of the project
suffice. It asks the same questions and writes a file. Hand that to the organisers of the
survey.</p>
<p lang="de">Diese Seite verändert Ihre Antworten zufällig in Ihrem Browser, bevor etwas gesendet
wird. Dafür braucht sie JavaScript. Ohne JavaScript nehmen Sie das Programm participant.py des
Projekts suffice. Es stellt dieselben Fragen und schreibt eine Datei. Geben Sie diese den
Veranstaltern der Umfrage.</p>
</noscript>
</main>
<script>{script}</script>
</body>
</html>
"""


def page_of(survey: Survey, mode: str, *, trial: bool = False) -> tuple[str, str]:
    """Return the page of a survey, and its Content-Security-Policy.

    ``mode`` says who may answer: people who are "invited", everybody ("open"); or "offline": the
    page sends nothing and gives the answer to the person. Of a ``trial`` the page says that answers
    never count.
    """
    folder = files("suffice")
    names = ("participant.js", "participant_page.js", "participant_page.css")
    program, page, style = (folder.joinpath(name).read_text(encoding="utf-8") for name in names)
    script = f"{program}\n{page}"
    allowed = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(style),
        "connect-src": "'none'" if mode == "offline" else "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    policy = "; ".join(f"{name} {value}" for name, value in allowed.items())
    text = _PAGE.format(
        language=survey.language,
        policy=html.escape(policy),
        title=html.escape(str(survey.content["title"])),
        style=style,
        mode=mode,
        trial="trial" if trial else "",
        survey=base64.b64encode(survey.data).decode(),
        script=script,
    )
    return text, policy


def _hash(text: str) -> str:
    """Return the source of a policy that allows this text alone."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
