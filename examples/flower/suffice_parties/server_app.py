"""The aggregator: asks every node once and releases one private statistic."""

from suffice.transport.flower.server import server_app

app = server_app()
