"""The aggregator: asks every node once and releases one private statistic."""

from suffice.protocol.flower import server_app

app = server_app()
