"""How owners and learners talk: typed messages, and the two-agent protocol in which they travel."""
