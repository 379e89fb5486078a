"""A party: answers with its contribution."""

from suffice.transport.flower.client import client_app

app = client_app()
