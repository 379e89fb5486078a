"""A party: answers with its contribution."""

from suffice.protocol.flower import client_app

app = client_app()
