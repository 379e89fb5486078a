"""A Flower app: suffice's server and client ends."""
